// What rounding of the unknowns may change in the cost, row by row.
#include "row_noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace topograd {
namespace {

/// Instances whose indices are copied together.
constexpr std::size_t kTile = 256;

}  // namespace

double row_noise(runtime::Engine& engine, const ProblemModel& model, double unit) {
  std::vector<double> x(model.model.scalars), residuals(model.model.rows), jacobian;
  engine.point(x);
  engine.residuals(residuals);
  std::vector<std::uint32_t> scalars;
  std::size_t row = 0;
  double sum = 0;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    if (term.energy) continue;
    const std::size_t slots = term.batch->parameter_columns(), instances = term.batch->size();
    const std::size_t outputs = term.topology->program.outputs.size();
    jacobian.resize(instances * outputs * slots);
    if (!jacobian.empty()) engine.jacobian(t, jacobian);
    const double* entry = jacobian.data();
    for (std::size_t first = 0; first < instances; first += kTile) {
      const std::size_t n = std::min(kTile, instances - first);
      scalars.resize(slots * n);
      for (std::size_t s = 0; s < slots; ++s)
        term.batch->copy_index_column(static_cast<std::uint32_t>(s), first,
                                      std::span(scalars).subspan(s * n, n));
      for (std::size_t k = 0; k < n * outputs; ++k, ++row) {
        double square = 0;
        for (std::size_t s = 0; s < slots; ++s, ++entry) {
          const double part = *entry * x[scalars[s * n + k / outputs]];
          square += part * part;
        }
        const double noise = unit * std::sqrt(square);
        sum += noise * (std::abs(residuals[row]) + noise / 2);
      }
    }
  }
  // Rows on the host have no Jacobian here.
  return row == model.model.rows ? sum : std::numeric_limits<double>::infinity();
}

}  // namespace topograd
