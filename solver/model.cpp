// A Problem as engines see it.
#include <topograd/solver/model.hpp>

#include <topograd/ir/error.hpp>

namespace topograd {
namespace {

std::string term_name(const Problem& problem, std::size_t topology) {
  const std::string_view label = problem.label(topology);
  return label.empty() ? "residual" + std::to_string(topology) : std::string(label);
}

}  // namespace

std::uint64_t ProblemModel::instances() const {
  std::uint64_t sum = 0;
  for (const runtime::Term& term : model.terms) sum += term.batch->size();
  return sum;
}

std::string ProblemModel::describe(std::size_t term, std::size_t instance) const {
  std::string label(problem->label(topologies[term], instance));
  if (label.empty()) label = "residual" + std::to_string(topologies[term]);
  return "residual \"" + label + "\" #" + std::to_string(instance) + " (topology " +
         to_string(model.terms[term].topology->hash) + ")";
}

ProblemModel make_model(const char* call, const Problem& problem) {
  if (problem.parameter_count() == 0) {
    throw Error(ErrorCode::EmptyProblem, std::string(call) + ": the problem has no parameters");
  }
  if (problem.residual_count() == 0) {
    throw Error(ErrorCode::EmptyProblem, std::string(call) + ": the problem has no residuals");
  }
  ProblemModel out;
  out.problem = &problem;
  for (const ParameterArray& array : problem.arrays()) {
    out.model.arrays.push_back(
        {.offset = array.offset, .width = array.width, .blocks = array.blocks});
  }
  out.model.scalars = problem.parameter_count();
  out.model.rows = problem.residual_count();
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (problem.batch(t).size() == 0) continue;
    out.model.terms.push_back({.topology = &problem.topology(t),
                               .batch = &problem.batch(t),
                               .name = term_name(problem, t)});
    out.topologies.push_back(t);
  }
  out.model.uniforms.assign(problem.uniforms().begin(), problem.uniforms().end());
  out.model.constant.assign(problem.constant_mask().begin(), problem.constant_mask().end());
  return out;
}

}  // namespace topograd
