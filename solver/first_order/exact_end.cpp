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
  if (!rows_.exists()) return std::nullopt;
  engines_.here().set_point(x);
  // Columns on manifolds are by tangents. Other methods have no kernels of the Jacobian.
  const bool has_rows = options_.method == Method::lbfgs || options_.method == Method::newton;
  const ColumnFacts columns = has_rows && !problem_.problem->has_manifolds()
                                  ? columns_at(x, summary.final_cost)
                                  : ColumnFacts();
  const bool few = has_rows && knows(summary);
  const bool nowhere =
      summary.num_successful_steps == 0 && summary.iterations.front().gradient_max_norm == 0;
  // Steps of a descent do not come from the columns.
  return topograd::leave_saddle(engines_.here(), problem_,
                                {.x = x,
                                 .start = start,
                                 .cost = summary.final_cost,
                                 .least = least,
                                 .unit = rounding_unit(options_.precision),
                                 .columns = columns,
                                 .by_columns = false,
                                 .dependent = few && (nowhere || rows_.has_dependent_columns(x)),
                                 .nowhere = nowhere})
      .step;
}

}  // namespace topograd
