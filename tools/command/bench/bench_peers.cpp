// Runs other solvers on the same problem.
#include "bench_peers.hpp"

#include "../peers/peer.hpp"
#include "../peers/peer_inputs.hpp"
#include "measure/bench_times.hpp"

#include "../../../runtime/cpu/copy_rate.hpp"
#include "../../../solver/interrupts.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using runtime::Pass;

constexpr std::uint64_t kMostRows = 4'000'000;
constexpr std::uint64_t kMostRowsOfSteps = 3'100'000;

ordered_json peer_json(const PeerReport& peer, int threads, const runtime::Traffic& traffic,
                       double copy_rate) {
  ordered_json json;
  json["name"] = peer.name;
  json["version"] = peer.version;
  json["libraries"] = peer.libraries;
  json["threads"] = threads;
  json["precision"] = "f64";
  json["build_s"] = peer.build_s;
  json["initial_cost"] = peer.initial_cost;
  json["copy_gb_s"] = copy_rate * 1e-9;
  const auto add = [&](const std::string& name, double us, std::uint64_t bytes) {
    if (us <= 0) return;
    json[name + "_us"] = us;
    json["share_of_copy"][name] = json[name + "_share_of_copy"] =
        share_of_copy(static_cast<double>(bytes), us, copy_rate);
  };
  add("residual", peer.residual_us, traffic.bytes(Pass::residual));
  add("jacobian", peer.jacobian_us, traffic.bytes(Pass::jacobian));
  add("evaluate_jacobian", peer.evaluate_jacobian_us, traffic.bytes(Pass::jacobian));
  add("gradient", peer.gradient_us, traffic.bytes(Pass::gradient));
  add("step100", peer.step100_us, traffic.step_bytes(kStepIterations));
  return json;
}

}  // namespace

ordered_json run_peers(const BenchArguments& arguments, const runtime::Model& model) {
  ordered_json peers = ordered_json::array();
  if (model.rows > kMostRows || Interrupts::came()) return peers;
  const RunPeer ceres = open_ceres();
  if (ceres == nullptr || arguments.problem.name == "bundle") return peers;
  std::optional<PeerInput> input = peer_input(arguments.problem);
  if (!input) return peers;
  input->threads = peer_threads(arguments.solver);
  input->step = model.rows <= kMostRowsOfSteps && arguments.problem.name != "developable" &&
                (arguments.only.empty() ||
                 std::ranges::find(arguments.only, "step100") != arguments.only.end());
  PeerReport report;
  ceres(*input, report);
  peers.push_back(peer_json(report, input->threads,
                            runtime::Traffic(model, codegen::Precision::f64),
                            runtime::cpu::copy_rate(input->threads)));
  return peers;
}

}  // namespace topograd::command
