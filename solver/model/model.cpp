// Construction of the model of a Problem, and its manifolds as programs.
#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "../../autodiff/derivatives.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/manifold/manifold_expression.hpp"
#include "../../frontend/traced_function.hpp"
#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"

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
  if (manifold.model()->expressed() == nullptr) return std::nullopt;
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
  const auto* expressed = model->expressed();
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

std::string_view kind(const Problem& problem, std::size_t topology) {
  return noun(problem.kind(topology));
}

std::string term_name(const Problem& problem, std::size_t topology, std::string_view label) {
  if (!label.empty()) return std::string(label);
  return std::string(kind(problem, topology)) + std::to_string(topology);
}

void take_bounds(const Problem& problem, runtime::Model& model) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::span<const double> lower = problem.lower_bounds(), upper = problem.upper_bounds();
  if (!has_bounds(problem)) return;
  model.lower.assign(lower.begin(), lower.end());
  model.upper.assign(upper.begin(), upper.end());
  model.lower.resize(model.scalars, -kInfinity);
  model.upper.resize(model.scalars, kInfinity);
}

std::string numbers(std::span<const double> block) {
  std::string text;
  for (const double number : block) text += (text.empty() ? "(" : ", ") + ir::print_number(number);
  return text + ")";
}

bool is_set(std::uint8_t flag) { return flag != 0; }

struct BlockOnManifold {
  const Manifold& manifold;
  std::size_t array;
  std::uint32_t block;
  std::uint32_t first, width;  ///< its numbers in x
};

template <class Function>
void for_each_on_manifold(const Problem& problem, const Function& function) {
  if (!problem.has_manifolds()) return;
  for (std::size_t a = 0; a < problem.arrays().size(); ++a) {
    const ParameterArray& array = problem.arrays()[a];
    for (std::uint32_t b = 0; b < array.blocks; ++b) {
      const Manifold* manifold = problem.manifold(a, b);
      if (manifold != nullptr)
        function(BlockOnManifold{*manifold, a, b, array.offset + b * array.width, array.width});
    }
  }
}

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

void check_manifolds(const char* call, const Problem& problem, std::span<const double> x) {
  const std::span<const std::uint8_t> fixed = problem.constant_mask();
  for_each_on_manifold(problem, [&](const BlockOnManifold& at) {
    if (!fixed.empty() && std::ranges::all_of(fixed.subspan(at.first, at.width), is_set)) return;
    const std::string why = at.manifold.refusal(x.data() + at.first);
    if (why.empty()) return;
    const ParameterArray& array = problem.arrays()[at.array];
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": " +
                    block_text({array.name, at.array, array.blocks, array.width}, at.block) +
                    " starts at " + numbers(x.subspan(at.first, at.width)) +
                    ", which is no point of its manifold " + at.manifold.name() + ": " + why);
  });
}

void reduce_manifolds(const Problem& problem, std::span<double> x) {
  const std::span<const std::uint8_t> fixed = problem.constant_mask();
  const auto is_bounded = [](std::span<const double> bounds, const BlockOnManifold& at) {
    return !bounds.empty() &&
           std::ranges::any_of(bounds.subspan(at.first, at.width),
                               [](double bound) { return std::isfinite(bound); });
  };
  for_each_on_manifold(problem, [&](const BlockOnManifold& at) {
    if (!fixed.empty() && std::ranges::any_of(fixed.subspan(at.first, at.width), is_set)) return;
    if (is_bounded(problem.lower_bounds(), at) || is_bounded(problem.upper_bounds(), at)) return;
    reduce(at.manifold, x.data() + at.first);
  });
}

ConstraintTerms constraint_terms(Method method) {
  if (!takes_constraints(method)) return ConstraintTerms::none;
  return method == Method::barrier ? ConstraintTerms::barriers : ConstraintTerms::penalties;
}

void hold_at_bounds(const runtime::Model& model, std::span<const double> x,
                    std::span<double> gradient) {
  for (std::size_t k = 0; k < gradient.size() && !model.lower.empty(); ++k) {
    const double g = gradient[k];  // perhaps NaN, which stays
    if ((g > 0 && x[k] <= model.lower[k]) || (g < 0 && x[k] >= model.upper[k])) gradient[k] = 0;
  }
}

bool has_bounds(const Problem& problem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto below = [](double bound) { return bound > -kInfinity; };
  const auto above = [](double bound) { return bound < kInfinity; };
  return std::ranges::any_of(problem.lower_bounds(), below) ||
         std::ranges::any_of(problem.upper_bounds(), above);
}

std::uint64_t ProblemModel::instances() const {
  std::uint64_t sum = 0;
  for (std::size_t t = 0; t < model.terms.size(); ++t) sum += instances(t);
  return sum;
}

std::uint64_t ProblemModel::instances(std::size_t term) const {
  return shares == nullptr ? model.terms[term].batch->size() : shares->instances(term);
}

std::uint64_t ProblemModel::energies() const {
  if (shares == nullptr) return problem->energy_count();
  std::uint64_t sum = 0;
  for (std::size_t t = 0; t < model.terms.size(); ++t)
    if (model.terms[t].energy) sum += instances(t);
  return sum;
}

std::optional<std::string> ProblemModel::first_of_all(std::optional<std::string> here) const {
  if (shares == nullptr) return here;
  std::string text = shares->first_text(here.value_or(""));
  if (text.empty()) return std::nullopt;
  return text;
}

std::string ProblemModel::describe(std::size_t term, std::size_t instance) const {
  const std::size_t t = topologies[term];
  const std::uint64_t first = shares == nullptr ? 0 : shares->first_instance(term);
  return std::string(kind(*problem, t)) + " \"" +
         term_name(*problem, t, problem->label(t, instance)) + "\" #" +
         std::to_string(first + instance) + " (topology " +
         to_string(model.terms[term].topology->hash) + ")";
}

ProblemModel make_model(const char* call, const Problem& problem, bool with_losses,
                        ConstraintTerms terms, bool of_share) {
  if (problem.parameter_count() == 0) {
    throw Error(ErrorCode::EmptyProblem, std::string(call) + ": the problem has no parameters");
  }
  const bool with_constraints = terms != ConstraintTerms::none;
  const std::size_t constraints = with_constraints ? problem.constraint_count() : 0;
  if (!of_share && problem.residual_count() + problem.energy_count() + constraints == 0) {
    throw Error(ErrorCode::EmptyProblem, std::string(call) + ": the problem has no residuals");
  }
  ProblemModel out;
  out.problem = &problem;
  out.with_losses = with_losses;
  out.constraints = terms;
  for (const ParameterArray& array : problem.arrays()) {
    out.model.arrays.push_back(
        {.offset = array.offset, .width = array.width, .blocks = array.blocks});
  }
  out.model.scalars = problem.parameter_count();
  out.model.rows = problem.residual_count() + constraints;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (problem.batch(t).size() == 0) continue;
    if (is_constraint(problem.kind(t)) && !with_constraints) continue;
    const bool barrier =
        terms == ConstraintTerms::barriers && problem.kind(t) == BlockKind::inequality;
    out.model.terms.push_back(
        {.topology = barrier ? &Penalties::barrier(problem, t) : &problem.topology(t),
         .batch = &problem.batch(t),
         .name = term_name(problem, t, problem.label(t)),
         .energy = barrier || problem.is_energy(t),
         .loss = with_losses ? problem.loss_program(t) : nullptr});
    out.topologies.push_back(t);
  }
  out.model.uniforms.assign(problem.uniforms().begin(), problem.uniforms().end());
  out.model.constant.assign(problem.constant_mask().begin(), problem.constant_mask().end());
  take_bounds(problem, out.model);
  out.model.manifolds = make_manifolds(problem);
  if (!bounds_spare_manifolds(out.model)) out.model.manifolds = nullptr;  // off the manifolds
  return out;
}

ProblemModel model_of_solve(const Problem& problem, ConstraintTerms constraints,
                            SolveGroup* group) {
  const bool of_share = group != nullptr && group->has_shares();
  ProblemModel model = make_model("solve", problem, true, constraints, of_share);
  if (of_share) group->share(model);
  return model;
}

}  // namespace topograd
