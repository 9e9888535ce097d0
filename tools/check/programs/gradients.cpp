// Compares gradients of whole problems with the scalar evaluator.
#include "gradients.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/evaluate.hpp"
#include "../../../runtime/plan/passes.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd::check {
namespace {

constexpr double kPerturbation = 1e-3;
constexpr double kSlack = 10;  // units in the last place allowed for rounding inside of kernels

using Long = long double;

Long rounded(double value, Precision precision) {
  return precision == Precision::f32 ? static_cast<Long>(static_cast<float>(value)) : value;
}

/// Adds the gradients of all instances of a term.
void add_term(const runtime::Model& model, const runtime::Term& term, std::span<const double> x,
              Precision precision, std::vector<Long>& sums) {
  const ir::Program& f = term.topology->program;
  const ir::Program program = runtime::pass_program(runtime::Pass::gradient, f,
                                                    autodiff::all_slots(f), term.energy, term.loss);
  std::vector<Long> p(term.batch->parameter_columns()), d(term.batch->data_columns()),
      u(term.batch->uniform_columns());
  for (std::size_t i = 0; i < term.batch->size(); ++i) {
    for (std::uint32_t k = 0; k < p.size(); ++k)
      p[k] = rounded(x[term.batch->index(i, k)], precision);
    for (std::uint32_t k = 0; k < d.size(); ++k) d[k] = rounded(term.batch->data(i, k), precision);
    for (std::uint32_t k = 0; k < u.size(); ++k) {
      u[k] = rounded(model.uniforms[term.batch->index(i, term.batch->parameter_columns() + k)],
                     precision);
    }
    const std::vector<Long> g =
        ir::evaluate<Long>(program, {.parameters = p, .data = d, .uniforms = u});
    for (std::uint32_t k = 0; k < p.size(); ++k) sums[term.batch->index(i, k)] += g[k];
  }
}

/// Relative change of the gradient when each scalar of x moves by up to a unit in the last place.
double sensitivity(const runtime::Model& model, std::span<const double> x,
                   std::span<const double> gradient, Precision precision, Random& random) {
  const double unit = precision == Precision::f32
                          ? static_cast<double>(std::numeric_limits<float>::epsilon())
                          : std::numeric_limits<double>::epsilon();
  std::vector<double> moved(x.begin(), x.end());
  for (double& scalar : moved) scalar *= 1 + unit * random.between(-1, 1);
  return relative_difference(reference_gradient(model, moved, precision), gradient);
}

}  // namespace

double gradient_bound(Precision precision) { return precision == Precision::f32 ? 1e-5 : 1e-10; }

std::vector<double> reference_gradient(const runtime::Model& model, std::span<const double> x,
                                       Precision precision) {
  std::vector<Long> sums(model.scalars, 0);
  for (const runtime::Term& term : model.terms) add_term(model, term, x, precision, sums);
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    if (model.constant[k] != 0) sums[k] = 0;
  }
  return {sums.begin(), sums.end()};
}

double relative_difference(std::span<const double> got, std::span<const double> want) {
  double error = 0, norm = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    error += (got[k] - want[k]) * (got[k] - want[k]);
    norm += want[k] * want[k];
  }
  return std::sqrt(norm > 0 ? error / norm : error);
}

std::vector<GradientResult> check_gradient(const std::string& name, Problem& problem,
                                           const Options& options) {
  const ProblemModel model = make_model("check", problem);
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  Random random(options.seed);
  for (double& scalar : x) scalar += random.between(-kPerturbation, kPerturbation);
  std::vector<GradientResult> results;
  const std::vector<CheckedBackend> backends = open_backends(options);
  for (const Precision precision : precisions_of(backends)) {
    const std::vector<double> want = reference_gradient(model.model, x, precision);
    const double bound = std::max(gradient_bound(precision),
                                  kSlack * sensitivity(model.model, x, want, precision, random));
    for (const CheckedBackend& backend : backends) {
      if (backend.runner->precision() != precision) continue;
      const bool on_cpu = backend.runner->backend() == runtime::Backend::cpu;
      Evaluator evaluator(problem, {.backend = on_cpu ? Backend::cpu : Backend::vulkan,
                                    .precision = precision,
                                    .device = options.device,
                                    .float64 = options.float64});
      const Eigen::VectorXd got = evaluator.gradient(x);
      const std::span<const double> values(got.data(), static_cast<std::size_t>(got.size()));
      results.push_back({.problem = name,
                         .backend = std::string(runtime::name(backend.runner->backend())),
                         .device = backend.runner->device(),
                         .precision = precision,
                         .unknowns = model.model.scalars,
                         .relative_difference = relative_difference(values, want),
                         .bound = bound});
    }
  }
  return results;
}

}  // namespace topograd::check
