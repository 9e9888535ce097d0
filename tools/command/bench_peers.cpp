// Problems as peers take them, and their reports.
#include "command/bench_peers.hpp"

#include "command/bench_times.hpp"
#include "command/peer.hpp"
#include "problems/arap.hpp"
#include "problems/smooth.hpp"
#include "problems/springs.hpp"

#include <topograd/runtime/cpu/copy_rate.hpp>
#include <topograd/runtime/platform.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using runtime::KernelKind;

constexpr std::uint64_t kMostRows = 4'000'000;
constexpr std::uint64_t kMostRowsOfSteps = 3'100'000;
constexpr int kStepIterations = 100;

void add_target(PeerTerm& targets, std::uint32_t block, double weight,
                const std::array<double, 3>& c) {
  targets.blocks.push_back(block);
  targets.numbers.insert(targets.numbers.end(), {weight, c[0], c[1], c[2]});
}

PeerInput springs_input(const ProblemArguments& arguments) {
  problems::SpringGrid grid = problems::spring_grid(arguments.width, arguments.shuffle);
  PeerTerm springs{PeerTerm::Kind::spring, {}, {}}, anchors{PeerTerm::Kind::target, {}, {}};
  for (const problems::Spring& s : grid.springs) {
    if (s.b == problems::Spring::kAnchor) {
      add_target(anchors, s.a, 1, s.target);
    } else {
      springs.blocks.insert(springs.blocks.end(), {s.a, s.b});
      springs.numbers.push_back(s.rest);
    }
  }
  return {std::move(grid.x), {std::move(springs), std::move(anchors)}};
}

PeerInput arap_input(const problems::TriangleMesh& mesh) {
  const std::vector<double>& u = mesh.positions;
  const auto vertices = static_cast<std::uint32_t>(mesh.vertex_count());
  PeerTerm edges{PeerTerm::Kind::arap_edge, {}, {}}, pins{PeerTerm::Kind::target, {}, {}};
  for (const auto& [i, j] : problems::directed_edges(mesh)) {
    edges.blocks.insert(edges.blocks.end(), {i, j, vertices + i});
    for (std::size_t k = 0; k < 3; ++k) edges.numbers.push_back(u[3 * i + k] - u[3 * j + k]);
  }
  for (const problems::Pin& pin : problems::arap_pins(mesh))
    add_target(pins, pin.vertex, problems::kPinWeight, pin.target);
  std::vector<double> x = u;
  x.resize(2 * u.size(), 0.0);
  return {std::move(x), {std::move(edges), std::move(pins)}};
}

PeerInput smooth_input(const problems::TriangleMesh& mesh) {
  std::vector<double> x = problems::noisy_positions(mesh);
  PeerTerm fit{PeerTerm::Kind::target, {}, {}}, edges{PeerTerm::Kind::smoothing, {}, {}};
  for (std::uint32_t v = 0; v < mesh.vertex_count(); ++v)
    add_target(fit, v, 1, {x[3 * v], x[3 * v + 1], x[3 * v + 2]});
  for (const problems::InteriorEdge& e : problems::interior_edges(mesh))
    edges.blocks.insert(edges.blocks.end(), {e.from, e.to, e.left, e.right});
  return {std::move(x), {std::move(fit), std::move(edges)}};
}

std::optional<PeerInput> input_of(const ProblemArguments& arguments) {
  if (arguments.name == "springs") return springs_input(arguments);
  if (arguments.name == "arap") return arap_input(read_problem_mesh(arguments));
  if (arguments.name == "smooth") return smooth_input(read_problem_mesh(arguments));
  return std::nullopt;
}

ordered_json to_json(const PeerReport& peer, int threads, const runtime::Traffic& traffic,
                     double copy_rate) {
  ordered_json json;
  json["name"] = peer.name;
  json["version"] = peer.version;
  json["libraries"] = peer.libraries;
  json["threads"] = threads;
  json["precision"] = "f64";
  json["build_s"] = peer.build_s;
  json["initial_cost"] = peer.initial_cost;
  const auto add = [&](const std::string& name, double us, std::uint64_t bytes) {
    if (us <= 0) return;
    json[name + "_us"] = us;
    json[name + "_share_of_copy"] = share_of_copy(static_cast<double>(bytes), us, copy_rate);
  };
  add("residual", peer.residual_us, traffic.bytes(KernelKind::residual));
  add("jacobian", peer.jacobian_us, traffic.bytes(KernelKind::jacobian));
  add("evaluate_jacobian", peer.evaluate_jacobian_us, traffic.bytes(KernelKind::jacobian));
  add("gradient", peer.gradient_us, traffic.bytes(KernelKind::gradient));
  add("step100", peer.step100_us, traffic.step_bytes(kStepIterations));
  return json;
}

}  // namespace

ordered_json run_peers(const BenchArguments& arguments, const runtime::Model& model) {
  ordered_json peers = ordered_json::array();
  if (model.rows > kMostRows) return peers;
  static const runtime::platform::SharedLibrary library(runtime::platform::executable_folder() +
                                                        "/topograd_peer_ceres.so");
  if (!library.ok()) return peers;
  std::optional<PeerInput> input = input_of(arguments.problem);
  if (!input) return peers;
  const int asked = arguments.solver.threads.value_or(0);
  input->threads = asked > 0 ? asked : static_cast<int>(std::thread::hardware_concurrency());
  input->step = model.rows <= kMostRowsOfSteps &&
                (arguments.only.empty() ||
                 std::ranges::find(arguments.only, "step100") != arguments.only.end());
  PeerReport report;
  reinterpret_cast<RunPeer>(library.symbol(kRunPeer))(*input, report);
  peers.push_back(to_json(report, input->threads, runtime::Traffic(model, codegen::Precision::f64),
                          runtime::cpu::copy_rate(input->threads)));
  return peers;
}

}  // namespace topograd::command
