// Residuals in two precisions.
#include "residual_rounding.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../step_control/convergence.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {
namespace {

using Wide = long double;

// Rounding above this share of the residuals hides cosines that a verdict is about.
constexpr double kHides = 1e-2;
// Rounding above this share leaves nothing to claim.
constexpr double kAll = 0.1;
// Residuals below this share of their terms, or of those at the start, are zero; and units of
// rounding below which they are.
constexpr double kZero = 1e-10, kZeroUnits = 64;
// Instances of a term that are looked at, first and where they round by much, nodes of all of them,
// and of one.
constexpr std::size_t kFew = 4, kMany = 1024, kMostNodes = 20'000, kLongest = 1'000;
// Share of an unknown by which it changes for its terms.
constexpr Wide kChange = 1e-9L;

struct Sums {
  double rounding = 0, residuals = 0, terms = 0, rows = 0;

  ResidualRounding means() const {
    const double n = std::max(rows, 1.0);
    return {std::sqrt(rounding / n), std::sqrt(residuals / n), std::sqrt(terms / n)};
  }
};

/// One instance of a term, whose numbers are of type T.
template <class T>
struct Instance {
  std::vector<T> parameters, data, uniforms;

  Instance(const ProblemModel& model, const runtime::Term& term, std::span<const double> x,
           std::size_t i) {
    const ir::LeafCounts& leaves = term.topology->program.leaves;
    for (std::uint32_t k = 0; k < leaves.parameters; ++k)
      parameters.push_back(static_cast<T>(x[term.batch->index(i, k)]));
    for (std::uint32_t k = 0; k < leaves.data; ++k)
      data.push_back(static_cast<T>(term.batch->data(i, k)));
    for (std::uint32_t k = 0; k < leaves.uniforms; ++k)
      uniforms.push_back(static_cast<T>(
          model.model.uniforms[term.batch->index(i, term.batch->parameter_columns() + k)]));
  }
  std::vector<T> rows(const ir::Program& program) const {
    ir::Inputs<T> in;
    in.parameters = parameters;
    in.data = data;
    in.uniforms = uniforms;
    return ir::evaluate(program, in);
  }
};

/// Adds an instance, unless it is not finite; its terms, too, if `by_unknowns`.
template <class T>
void add(const ProblemModel& model, const runtime::Term& term, std::span<const double> x,
         std::size_t i, bool by_unknowns, Sums& sums) {
  const ir::Program& program = term.topology->program;
  const std::vector<T> rows = Instance<T>(model, term, x, i).rows(program);
  Instance<Wide> wide(model, term, x, i);
  const std::vector<Wide> exact = wide.rows(program);
  std::vector<Wide> changed = exact;
  if (by_unknowns) {
    for (std::size_t k = 0; k < wide.parameters.size(); ++k)
      wide.parameters[k] *= 1 + (k % 2 == 0 ? kChange : -kChange);
    changed = wide.rows(program);
  }
  Sums out = sums;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto rounding = static_cast<double>(static_cast<Wide>(rows[k]) - exact[k]);
    const auto change = static_cast<double>((changed[k] - exact[k]) / kChange);
    out.rounding += rounding * rounding;
    out.residuals += static_cast<double>(exact[k] * exact[k]);
    out.terms += change * change;
    ++out.rows;
  }
  if (std::isfinite(out.rounding) && std::isfinite(out.residuals) && std::isfinite(out.terms))
    sums = out;
}

Sums look(const ProblemModel& model, std::span<const double> x, Precision precision,
          std::size_t instances, bool by_unknowns) {
  Sums sums;
  std::size_t nodes = 0;
  for (const runtime::Term& term : model.model.terms) {
    const std::size_t size = term.batch->size(), length = term.topology->program.nodes.size();
    if (term.energy || size == 0 || length > kLongest || term.batch->has_resident()) continue;
    const std::size_t step = std::max<std::size_t>(1, size / instances);
    for (std::size_t i = 0; i < size && nodes < kMostNodes; i += step, nodes += length) {
      if (precision == Precision::f32) {
        add<float>(model, term, x, i, by_unknowns, sums);
      } else {
        add<double>(model, term, x, i, by_unknowns, sums);
      }
    }
  }
  return sums;
}

}  // namespace

bool ResidualRounding::hides(Precision precision, double start) const {
  const double zero = std::max(kZero, kZeroUnits * rounding_unit(precision));
  return rounding > kHides * residuals && rounding > zero * terms && rounding > zero * start;
}

bool ResidualRounding::is_all() const { return rounding > kAll * residuals; }

std::string ResidualRounding::text() const {
  return platform::formatted(
      "; rounding hides the minimum: residuals round by %.1e, and are %.1e (root mean squares)",
      rounding, residuals);
}

double ResidualRounding::noise(double rows, Precision precision) const {
  constexpr double kFewRoundings = 64;
  const double least = kFewRoundings * (rounding + rounding_unit(precision) * terms);
  return residuals <= least ? rows * std::pow(std::max(residuals, rounding), 2)
                            : rows * rounding * (residuals + rounding / 2);
}

ResidualRounding residual_rounding(const ProblemModel& model, std::span<const double> x,
                                   Precision precision, bool by_terms) {
  const ResidualRounding few = look(model, x, precision, kFew, by_terms).means();
  if (!(few.rounding > kHides / 4 * few.residuals)) return few;
  return look(model, x, precision, kMany, true).means();
}

}  // namespace topograd
