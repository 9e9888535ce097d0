// Least squares for multipliers.
#include "multiplier_fit.hpp"

#include "constraint_values.hpp"

#include <Eigen/IterativeLinearSolvers>
#include <Eigen/SparseCore>

#include <algorithm>
#include <cstdint>

namespace topograd {
namespace {

using ColumnMatrix = Eigen::SparseMatrix<double>;

constexpr int kMostIterations = 200;
constexpr double kTolerance = 1e-12;

/// ColumnMatrix by scalars -> gradients by the coordinates that must vanish: those that are free,
/// on manifolds the tangents, and not pushed against a bound by g.
ColumnMatrix projection(const ConstrainedRun& run, std::span<const double> gradient) {
  const std::span<const double> x = run.inner.point();
  std::vector<double> basis, coordinates(run.space.size());
  std::vector<Eigen::Triplet<double>> entries;
  if (run.space.basis(x, basis)) {
    run.space.project(basis, gradient, coordinates);
    for (std::uint32_t k = 0; k < x.size(); ++k) {
      const bool is_free = run.space.column(k) != TangentSpace::kNone &&
                           run.space.block_of(k) == nullptr &&
                           !run.space.is_active(k, x, coordinates);
      if (is_free)
        entries.emplace_back(static_cast<int>(run.space.column(k)), static_cast<int>(k), 1);
    }
    for (const TangentSpace::Block& block : run.space.blocks())
      for (std::uint32_t k = 0; k < block.width; ++k)
        for (std::uint32_t t = 0; t < block.tangent; ++t)
          entries.emplace_back(static_cast<int>(block.column + t),
                               static_cast<int>(block.offset + k),
                               basis[block.basis + k * block.tangent + t]);
  }
  ColumnMatrix out(static_cast<Eigen::Index>(coordinates.size()),
                   static_cast<Eigen::Index>(x.size()));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

/// ColumnMatrix of the rows, one column each, times their multipliers.
ColumnMatrix scaled_gradients(ConstrainedRun& run, std::span<const std::size_t> rows) {
  const ProblemModel& model = run.model;
  const std::uint64_t first = run.penalties.first_row();
  const runtime::Engine& engine = run.inner.engine(runtime::Pass::cost);
  std::vector<Eigen::Triplet<double>> entries;
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    if (model.problem->kind(model.topologies[t]) != BlockKind::inequality) continue;
    const ir::Batch& batch = *model.model.terms[t].batch;
    const std::size_t outputs = constraint_outputs(model, t);
    const std::uint32_t slots = batch.parameter_columns();
    const std::vector<double> J = constraint_jacobian(model, engine, t, run.inner.point());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::size_t k = 0; k < outputs; ++k) {
        const std::size_t row = batch.residual_row(i) - first + k;
        const auto at = std::ranges::lower_bound(rows, row);
        if (at == rows.end() || *at != row) continue;
        for (std::uint32_t s = 0; s < slots; ++s)
          entries.emplace_back(static_cast<int>(batch.index(i, s)),
                               static_cast<int>(at - rows.begin()),
                               run.multipliers[row] * J[(i * outputs + k) * slots + s]);
      }
    }
  }
  ColumnMatrix out(static_cast<Eigen::Index>(run.inner.point().size()),
                   static_cast<Eigen::Index>(rows.size()));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

}  // namespace

void fit_multipliers(ConstrainedRun& run, std::span<const std::size_t> rows,
                     std::vector<double>& gradient) {
  if (rows.empty()) return;
  const ColumnMatrix all = scaled_gradients(run, rows);
  const ColumnMatrix free_coordinates = projection(run, gradient);
  Eigen::Map<Eigen::VectorXd> g(gradient.data(), static_cast<Eigen::Index>(gradient.size()));
  const Eigen::VectorXd right = free_coordinates * g;
  const ColumnMatrix free = free_coordinates * all;
  Eigen::LeastSquaresConjugateGradient<ColumnMatrix> fit;
  fit.setMaxIterations(kMostIterations);
  fit.setTolerance(kTolerance);
  fit.compute(free);
  Eigen::VectorXd change = fit.solve(right);
  if (!change.allFinite()) return;
  change = change.cwiseMax(-0.5);  // multipliers of inequalities stay positive
  for (std::size_t k = 0; k < rows.size(); ++k)
    run.multipliers[rows[k]] *= 1 + change[static_cast<Eigen::Index>(k)];
  g -= all * change;
}

}  // namespace topograd
