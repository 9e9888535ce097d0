// Tracing one residual and evaluating it with its derivatives.
#include "evaluated.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/evaluate.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::test {
namespace {

/// An expression as a problem of one residual.
struct Traced {
  Numbers values;
  Problem problem;

  Traced(Numbers v, const Expression& f) : values(std::move(v)) {
    const Parameters x = problem.add_parameters(values);
    problem.add_residual(std::span<const Value>(f(x)));
  }
  const ir::Program& program() const { return problem.topology(0).program; }
  const ir::Batch& batch() const { return problem.batch(0); }

  template <class T>
  std::vector<T> run(const ir::Program& program, const std::vector<T>& x) const {
    std::vector<T> parameters(batch().parameter_columns()), data(batch().data_columns());
    for (std::uint32_t c = 0; c < parameters.size(); ++c) parameters[c] = x[batch().index(0, c)];
    for (std::uint32_t c = 0; c < data.size(); ++c) data[c] = static_cast<T>(batch().data(0, c));
    return ir::evaluate<T>(
        program,
        {.parameters = parameters, .data = data, .uniforms = {}, .tangents = {}, .seeds = {}});
  }
};

template <class T>
Evaluated evaluate_as(Numbers values, const Expression& f) {
  const Traced traced(std::move(values), f);
  const std::size_t n = traced.batch().parameter_columns(), width = traced.values.size();
  const ir::Program j = autodiff::jacobian(traced.program(), autodiff::all_slots(traced.program()));
  const std::vector<T> x(traced.values.begin(), traced.values.end());
  const std::vector<T> local = traced.run(j, x), rows = traced.run(traced.program(), x);
  Evaluated result{Numbers(rows.begin(), rows.end()), Numbers(rows.size() * width)};
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::uint32_t c = 0; c < n; ++c)
      result.jacobian[r * width + traced.batch().index(0, c)] = local[r * n + c];
  return result;
}

}  // namespace

Evaluated evaluate(Numbers values, const Expression& f) {
  return evaluate_as<double>(std::move(values), f);
}
Evaluated evaluate_single(Numbers values, const Expression& f) {
  return evaluate_as<float>(std::move(values), f);
}

double difference_error(const Numbers& values, const Expression& f) {
  const Evaluated e = evaluate(values, f);
  const Traced traced(values, f);
  long double worst = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    constexpr long double kStep = 1e-6L;
    std::vector<long double> up(values.begin(), values.end()), down = up;
    up[k] += kStep;
    down[k] -= kStep;
    const auto high = traced.run(traced.program(), up), low = traced.run(traced.program(), down);
    for (std::size_t r = 0; r < e.rows.size(); ++r) {
      const long double expected = (high[r] - low[r]) / (2 * kStep);
      const long double error = std::fabs(e.jacobian[r * values.size() + k] - expected) /
                                std::max(1.0L, std::fabs(expected));
      worst = std::isnan(error) ? error : std::max(worst, error);
      if (std::isnan(error)) return static_cast<double>(error);
    }
  }
  return static_cast<double>(worst);
}

}  // namespace topograd::test
