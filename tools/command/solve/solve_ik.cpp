// topograd solve ik: joint values for many poses of a robot's tip.
#include "solve_ik.hpp"

#include "../../problems/inverse_kinematics.hpp"
#include "../arguments/output.hpp"

#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

using problems::InverseKinematics;
using problems::Joint;

std::string short_text(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// The q-quantile of some numbers, which are not empty.
double quantile(std::vector<double> numbers, double q) {
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(numbers.size() - 1));
  std::ranges::nth_element(numbers, numbers.begin() + at);
  return numbers[static_cast<std::size_t>(at)];
}

nlohmann::ordered_json joints_json(const problems::Chain& chain) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Joint* joint : chain.moving()) {
    out.push_back({{"name", joint->name}, {"type", name(joint->kind)}});
    if (joint->kind == Joint::Kind::continuous) continue;
    out.back()["lower"] = joint->lower;
    out.back()["upper"] = joint->upper;
  }
  return out;
}

nlohmann::ordered_json errors_json(const std::vector<double>& errors, double tolerance) {
  return {{"tolerance", tolerance},
          {"median", quantile(errors, 0.5)},
          {"largest", quantile(errors, 1)}};
}

nlohmann::ordered_json json_of(const problems::Chain& chain, const InverseKinematics& result,
                               const IkArguments& arguments, const std::string& verdict) {
  const bool all = verdict.empty();
  nlohmann::ordered_json json = {
      {"termination", name(all ? Termination::CONVERGENCE : Termination::NO_CONVERGENCE)},
      {"message", all ? "all targets are within both tolerances" : verdict},
      {"robot", chain.robot},
      {"root", chain.root},
      {"tip", chain.tip},
      {"joints", joints_json(chain)},
      {"targets", result.count()},
      {"solved", result.solved_count()},
      {"first_starts_converged",
       std::ranges::count(result.first.components.termination, Termination::CONVERGENCE)},
      {"most_starts", arguments.starts},
      {"solves", result.solves},
      {"steps", result.steps},
      {"position_error", errors_json(result.position_error, arguments.position_tolerance)},
      {"rotation_error", errors_json(result.rotation_error, arguments.rotation_tolerance)},
      {"backend", result.first.backend},
      {"device", result.first.device},
      {"time_s", result.seconds}};
  nlohmann::ordered_json& unsolved = json["unsolved"] = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < result.count(); ++t)
    if (result.solved[t] == 0) unsolved.push_back(t);
  return json;
}

std::string text_of(const problems::Chain& chain, const InverseKinematics& result,
                    const IkArguments& arguments) {
  const std::size_t solved = result.solved_count(), count = result.count();
  const double share = 100 * static_cast<double>(solved) / static_cast<double>(count);
  const auto line = [](const std::string& what, const std::vector<double>& errors, double tolerance,
                       const std::string& unit) {
    return "  " + what + "  median " + short_text("%.3g", quantile(errors, 0.5)) + ", largest " +
           short_text("%.3g", quantile(errors, 1)) + " " + unit + "; tolerance " +
           short_text("%.3g", tolerance) + "\n";
  };
  return std::to_string(solved) + " of " + std::to_string(count) + " targets reached (" +
         short_text("%.2f", share) + " %) in " + short_text("%.3f", result.seconds) + " s\n" +
         "  chain     " + chain.root + " to " + chain.tip + ", " +
         std::to_string(chain.unknowns()) + " joints that move\n" +
         line("position", result.position_error, arguments.position_tolerance, "m") +
         line("rotation", result.rotation_error, arguments.rotation_tolerance, "rad") +
         "  solves    " + std::to_string(result.solves) + " from at most " +
         std::to_string(arguments.starts) + " starts a target, " + std::to_string(result.steps) +
         " steps\n" + "  on        " + result.first.device + "\n";
}

}  // namespace

void add_ik_options(Command app, IkArguments& arguments) {
  app.group("Inverse kinematics");
  app.option("--robot", &arguments.robot, "URDF file").only_with({"ik"});
  app.option("--targets", &arguments.targets,
             "CSV file of poses of the tip in the frame of the root: x, y, z, qx, qy, qz, qw")
      .only_with({"ik"});
  app.option("--tip", &arguments.tip,
             "link that reaches the targets; can be left out if the robot has one end")
      .only_with({"ik"});
  app.option("--starts", &arguments.starts, "most starts of a target; the best result is kept")
      .range(1, 100000)
      .only_with({"ik"});
  app.option("--position-tolerance", &arguments.position_tolerance, "error in m that is a success")
      .only_with({"ik"});
  app.option("--rotation-tolerance", &arguments.rotation_tolerance,
             "error in rad that is a success")
      .only_with({"ik"});
}

IkAnswer solve_ik(const IkArguments& arguments, const SolverArguments& solver, std::uint64_t seed,
                  nlohmann::ordered_json& json) {
  if (arguments.robot.empty())
    throw Error(ErrorCode::InvalidArgument, "ik: expected --robot FILE.urdf");
  if (arguments.targets.empty())
    throw Error(ErrorCode::InvalidArgument, "ik: expected --targets FILE.csv");
  const problems::Chain chain =
      problems::read_chain(read_text(arguments.robot), arguments.robot, arguments.tip);
  const problems::Targets targets =
      problems::read_targets(read_text(arguments.targets), arguments.targets);
  problems::InverseKinematicsOptions options{.starts = arguments.starts,
                                             .seed = seed,
                                             .position_tolerance = arguments.position_tolerance,
                                             .rotation_tolerance = arguments.rotation_tolerance};
  options.solver = to_options(solver, options.solver);
  const InverseKinematics result = problems::inverse_kinematics(chain, targets, options);
  IkAnswer answer{.csv = problems::to_csv(chain, result),
                  .text = text_of(chain, result, arguments)};
  if (const std::size_t left = result.count() - result.solved_count(); left > 0)
    answer.unconverged = "NO_CONVERGENCE: " + std::to_string(left) + " of " +
                         std::to_string(result.count()) +
                         " targets were not reached within both tolerances";
  json = json_of(chain, result, arguments, answer.unconverged);
  return answer;
}

}  // namespace topograd::command
