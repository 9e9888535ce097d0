// Options of the command that become SolverOptions.
#pragma once

#include "arguments.hpp"

#include "../../../solver/options.hpp"

#include <optional>
#include <string>
#include <vector>

namespace topograd::command {

/// Text of the given options; to_options() parses it.
struct SolverArguments {
  std::string domain, cross_check;
  std::string backend, precision, method, linear, preconditioner, normal_matrix, factor, forcing,
      components, accumulate, device, float64, bits;
  std::string plan, plan_out;
  std::string checkpoint, resume;
  bool deterministic = false, profile = false;
  std::optional<int> max_iterations, max_linear_iterations, threads;
  std::vector<std::string> options;  ///< "NAME=VALUE", any field of SolverOptions
  std::optional<double> tolerance, time_limit, checkpoint_every;
};

/// Options of every subcommand that evaluates: backend, precision, device, accumulation, threads.
void add_place_options(Command app, SolverArguments& a);
/// Options of the method: how steps are found.
void add_method_options(Command app, SolverArguments& a);
/// These options and limits, for commands that solve once.
void add_solve_options(Command app, SolverArguments& a);
/// Options of checkpoints, which one solve has.
void add_checkpoint_options(Command app, SolverArguments& a);

/// `options` with the given values. Throws Error{InvalidArgument} for an unknown name.
SolverOptions to_options(const SolverArguments& a, SolverOptions options = {});

}  // namespace topograd::command
