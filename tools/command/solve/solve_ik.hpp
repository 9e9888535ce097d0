// topograd solve ik: joint values for many poses of a robot's tip.
#pragma once

#include "../arguments/arguments.hpp"
#include "../arguments/shared_arguments.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace topograd::command {

/// Options of ik.
struct IkArguments {
  std::string robot, targets, tip;
  int starts = 16;
  double position_tolerance = 5e-3, rotation_tolerance = 0.05;
};
void add_ik_options(Command app, IkArguments& arguments);

/// What a solve of ik leaves.
struct IkAnswer {
  std::string csv;          ///< of --out
  std::string text;         ///< for people
  std::string unconverged;  ///< empty if all targets were reached
};
/// Reads robot and targets, and solves. Throws Error{InvalidArgument} without --robot or --targets,
/// and what reading and solving throw.
///
///   seed  of the starts after the first
///   json  out: the report
IkAnswer solve_ik(const IkArguments& arguments, const SolverArguments& solver, std::uint64_t seed,
                  nlohmann::ordered_json& json);

}  // namespace topograd::command
