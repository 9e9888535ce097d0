// A problem's manifolds as programs.
#include "manifold_blocks.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../frontend/manifold/manifold_expression.hpp"
#include "../../frontend/traced_function.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace topograd {
namespace {

/// With more kinds of manifolds the host makes the steps: each kind has its own kernels.
constexpr std::size_t kMostManifolds = 32;

/// The program with `delta(k)` in place of parameter n + k, and numbers in place of data.
template <class Delta>
ir::Program replace(const ir::Program& program, std::span<const double> numbers, std::uint32_t n,
                    std::size_t outputs_wanted, const Delta& delta, std::uint32_t tangent) {
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : program.nodes) {
    if (node.op == ir::Op::Data) {
      map.push_back(graph.literal(numbers[node.slot()]));
    } else if (node.op == ir::Op::Parameter && node.slot() >= n) {
      map.push_back(delta(graph, node.slot() - n));
    } else {
      map.push_back(graph.copy(node, map));
    }
  }
  // Rows of `tangent` outputs are padded with zeros to n.
  std::vector<ir::Id> outputs;
  const bool fill = outputs_wanted != program.outputs.size();
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    outputs.push_back(map[program.outputs[k]]);
    const bool row_ends = fill && (k + 1) % tangent == 0;
    for (std::uint32_t c = tangent; row_ends && c < n; ++c) outputs.push_back(graph.literal(0));
  }
  return ir::optimize(graph.extract(outputs, {.parameters = n}));
}

std::optional<runtime::ManifoldBlocks> trace_manifold_blocks(const Manifold& manifold) {
  const int n = manifold.ambient_size(), t = manifold.tangent_size();
  if (t == 0 || n > static_cast<int>(codegen::kMaxBlockWidth)) return std::nullopt;
  if (dynamic_cast<const ExpressedManifold*>(manifold.model().get()) == nullptr)
    return std::nullopt;
  const auto width = static_cast<std::uint32_t>(n), tangent = static_cast<std::uint32_t>(t);
  bool opaque = false;
  const detail::TracedFunction traced =
      detail::trace_function("manifold", width + tangent, [&](std::span<const Value> v) {
        std::vector<Value> out = plus_expression(manifold, v.first(width), v.subspan(width));
        opaque = out.empty();
        return opaque ? std::vector<Value>{v[0]} : out;
      });
  if (opaque) return std::nullopt;
  std::vector<std::uint32_t> slots(tangent);
  std::iota(slots.begin(), slots.end(), width);
  const ir::Program jacobian = autodiff::jacobian(traced.program, slots);
  runtime::ManifoldBlocks manifold_blocks{
      .width = width, .tangent = tangent, .plus = {}, .basis = {}, .blocks = {}};
  manifold_blocks.plus = replace(
      traced.program, traced.numbers, width, width,
      [](ir::Graph& graph, std::uint32_t k) { return graph.leaf(ir::Op::Tangent, k); }, tangent);
  manifold_blocks.basis = replace(
      jacobian, traced.numbers, width, std::size_t{width} * width,
      [](ir::Graph& graph, std::uint32_t) { return graph.literal(0); }, tangent);
  return manifold_blocks;
}

/// Parts that all users of a manifold share are traced once per process.
std::optional<runtime::ManifoldBlocks> make_manifold_blocks(const Manifold& manifold,
                                                            const std::string& key) {
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, std::optional<runtime::ManifoldBlocks>>;
  if (key.empty()) return trace_manifold_blocks(manifold);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, trace_manifold_blocks(manifold)).first->second;
}

/// The manifold's key, or its address if it has none.
using Identity = std::pair<std::string, const ManifoldModel*>;
Identity identity_of(const ManifoldModel* model) {
  const auto* expressed = dynamic_cast<const ExpressedManifold*>(model);
  std::string key = expressed == nullptr ? std::string() : expressed->key();
  const bool shared = !key.empty();
  return {std::move(key), shared ? nullptr : model};
}

/// Number of fixed coordinates of a block: 0, its width, or between.
std::size_t constants_of(const Problem& problem, std::uint64_t first, std::uint32_t width) {
  const std::span<const std::uint8_t> mask = problem.constant_mask();
  if (mask.empty()) return 0;
  const auto block = mask.subspan(first, width);
  return static_cast<std::size_t>(std::ranges::count_if(block, [](auto c) { return c != 0; }));
}

/// Gathers the blocks of each manifold of a problem.
class ManifoldCollector {
 public:
  explicit ManifoldCollector(const Problem& problem) : problem_(problem) {}

  /// Returns null where a block has no such form: some of its coordinates are fixed, or its
  /// manifold is no expression, or there are too many manifolds.
  std::shared_ptr<runtime::Manifolds> collect() {
    for (std::size_t a = 0; a < problem_.arrays().size(); ++a)
      for (std::uint32_t b = 0; b < problem_.arrays()[a].blocks; ++b)
        if (!add(a, b)) return nullptr;
    return manifolds_;
  }

 private:
  bool add(std::size_t a, std::uint32_t b) {
    const Manifold* manifold = problem_.manifold(a, b);
    if (manifold == nullptr) return true;
    const auto& array = problem_.arrays()[a];
    const std::uint32_t first = array.offset + b * array.width;
    const std::size_t constants = constants_of(problem_, first, array.width);
    if (constants == array.width) return true;
    runtime::ManifoldBlocks* const blocks = constants > 0 ? nullptr : blocks_of(a, *manifold);
    if (blocks == nullptr) return false;
    blocks->blocks.push_back(first);
    return true;
  }

  runtime::ManifoldBlocks* blocks_of(std::size_t a, const Manifold& manifold) {
    const ManifoldModel* const model = manifold.model().get();
    auto identity = identities_.find(model);
    if (identity == identities_.end())
      identity = identities_.emplace(model, identity_of(model)).first;
    const auto [at, fresh] = known_.try_emplace({a, identity->second}, manifolds_->all.size());
    if (fresh) {
      if (known_.size() > kMostManifolds) return nullptr;
      std::optional<runtime::ManifoldBlocks> made =
          make_manifold_blocks(manifold, identity->second.first);
      if (!made) return nullptr;
      manifolds_->all.push_back(std::move(*made));
    }
    return &manifolds_->all[at->second];
  }

  const Problem& problem_;
  std::shared_ptr<runtime::Manifolds> manifolds_ = std::make_shared<runtime::Manifolds>();
  std::map<const ManifoldModel*, Identity> identities_;
  std::map<std::pair<std::size_t, Identity>, std::size_t> known_;  // by array
};

}  // namespace

std::shared_ptr<const runtime::Manifolds> make_manifolds(const Problem& problem) {
  if (!problem.has_manifolds()) return nullptr;
  std::shared_ptr<runtime::Manifolds> manifolds = ManifoldCollector(problem).collect();
  return !manifolds || manifolds->all.empty() ? nullptr : manifolds;
}

bool bounds_spare_manifolds(const runtime::Model& model) {
  if (!model.manifolds || model.lower.empty()) return true;
  return std::ranges::all_of(
      model.manifolds->all, [&](const runtime::ManifoldBlocks& manifold_blocks) {
        return std::ranges::all_of(manifold_blocks.blocks, [&](std::uint32_t first) {
          for (std::uint32_t k = first; k < first + manifold_blocks.width; ++k)
            if (!std::isinf(model.lower[k]) || !std::isinf(model.upper[k])) return false;
          return true;
        });
      });
}

bool engines_know_manifolds(const Problem& problem) {
  runtime::Model model;
  model.manifolds = make_manifolds(problem);
  if (model.manifolds == nullptr) return false;
  if (has_bounds(problem)) {
    model.lower.assign(problem.lower_bounds().begin(), problem.lower_bounds().end());
    model.upper.assign(problem.upper_bounds().begin(), problem.upper_bounds().end());
  }
  return bounds_spare_manifolds(model);
}

}  // namespace topograd
