// Options that several subcommands have: SolverOptions, expressions with their names, losses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../../../api/expression/expression.hpp"
#include "../../../frontend/loss.hpp"
#include "../../../solver/options.hpp"
#include "arguments.hpp"

namespace topograd::command {

/// An expression as given on the command line.
struct ExpressionArguments {
  std::string text;
  ExpressionNames names;

  bool any() const {
    return !text.empty() || !names.parameters.empty() || !names.data.empty() ||
           !names.uniforms.empty();
  }
};

/// Adds --expr, --params, --data and --uniforms; returns --expr.
inline Option add_expression_options(Command app, ExpressionArguments& a) {
  app.option("--params", &a.names.parameters, "names of parameters, separated by commas")
      .delimiter(',');
  app.option("--data", &a.names.data, "names of numbers of an instance").delimiter(',');
  app.option("--uniforms", &a.names.uniforms, "names of numbers shared by instances")
      .delimiter(',');
  return app.option("--expr", &a.text, "residual, rows separated by ';'");
}

/// parse() with the position of an error in one line. Throws what parse() throws.
ir::Program parse_expression(const ExpressionArguments& arguments);

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
void add_backend_options(Command app, SolverArguments& a);
/// Options of the method: how steps are found.
void add_method_options(Command app, SolverArguments& a);
/// Limits and tolerances, and fields of SolverOptions by name.
void add_limit_options(Command app, SolverArguments& a);
/// The last two, for commands that solve once.
void add_solve_options(Command app, SolverArguments& a);
/// Options of checkpoints, which one solve has.
void add_checkpoint_options(Command app, SolverArguments& a);

/// `options` with the given values. Throws Error{InvalidArgument} for an unknown name.
SolverOptions to_options(const SolverArguments& a, SolverOptions options = {});

/// "huber:1", "soft_l1:A", "cauchy:A", "arctan:A", "tukey:A" or "tolerant:A,B"; the trivial loss
/// for an empty text or "trivial". Throws Error{InvalidArgument} for anything else.
Loss parse_loss(const std::string& text);

}  // namespace topograd::command
