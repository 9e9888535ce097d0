// Construction of the model of a Problem.
#include "model.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/manifold/manifold_expression.hpp"
#include "../../ir/error.hpp"
#include "../../ir/text.hpp"
#include "manifold_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace topograd {
namespace {

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
