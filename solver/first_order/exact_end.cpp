// Second derivatives at the end of a descent, by the exact model of the solves for least squares.
#include "exact_end.hpp"

#include "../model/residual_rounding.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/newton_decrement.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace topograd {

bool ExactEnd::knows(const Summary& summary) {
  return rows_.exists() && summary.unknowns <= kMostCurved &&
         has_exact_model(engines_.here(), problem_);
}

ColumnFacts ExactEnd::columns_at(std::span<const double> x, double cost) {
  const RowModel::Columns columns = rows_.columns_at(x);
  runtime::PointReport point;
  point.cost = cost;
  point.scaled_x_norm = columns.terms;
  ColumnFacts out;
  out.noise = gradient_noise(columns.squares, point, rounding_unit(options_.precision));
  out.squares = columns.squares;
  engines_.here().set_point(x);
  return out;
}

bool ExactEnd::denies(std::span<const double> x, const Summary& summary, double promised,
                      double least) {
  const auto& terms = problem_.model.terms;
  if (!knows(summary) || std::ranges::any_of(terms, [](const runtime::Term& term) {
        return has_corners(term.topology->program);
      }))
    return false;
  const double noise = residual_rounding(problem_, x, options_.precision)
                           .noise(static_cast<double>(problem_.model.rows));
  if (promised <= noise) return false;
  const ColumnFacts columns = columns_at(x, summary.final_cost);
  const double unit = rounding_unit(options_.precision);
  return !(exact_gain(engines_.here(), problem_, unit, columns) <= least);
}

std::optional<ExactStep> ExactEnd::step(std::span<const double> x, const Summary& summary,
                                        double least) {
  const ColumnFacts columns = columns_at(x, summary.final_cost);
  std::optional<ExactStep> found =
      exact_step(engines_.here(), problem_, rounding_unit(options_.precision), summary.final_cost,
                 columns, kMostExactTries);
  if (found && !(summary.final_cost - found->cost > least)) found.reset();
  return found;
}

std::optional<ExactStep> ExactEnd::leave_saddle(std::span<const double> x,
                                                std::span<const double> start,
                                                const Summary& summary, double least) {
  if (!knows(summary)) return std::nullopt;
  const ColumnFacts columns = columns_at(x, summary.final_cost);
  const auto& constant = problem_.model.constant;
  bool vanished = false;
  for (std::size_t k = 0; k < columns.squares.size() && !vanished; ++k) {
    const double size = std::max(std::abs(x[k]), std::abs(x[k] - start[k]));
    vanished = (constant.empty() || constant[k] == 0) &&
               LostColumns::has_vanished(columns.squares[k], size, summary.final_cost);
  }
  if (!vanished) return std::nullopt;
  return saddle_step(engines_.here(), problem_, rounding_unit(options_.precision),
                     summary.final_cost, least, columns);
}

}  // namespace topograd
