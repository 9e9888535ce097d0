// The whole Jacobian as a dense matrix, and damped steps by its QR decomposition.
#include "dense_rows.hpp"

#include "../../../runtime/linear/dense.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

constexpr double kRoundingOfSums = 4;

/// Share of the largest pivot below which one is rounding: that of n steps of elimination, and that
/// of the sums over m rows in each, which grows like √m.
double rank_threshold(Eigen::Index rows, Eigen::Index columns) {
  const double sums = kRoundingOfSums * std::sqrt(static_cast<double>(rows));
  return std::numeric_limits<double>::epsilon() * std::max(static_cast<double>(columns), sums);
}

}  // namespace

DampedRows damped_rows(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& residuals,
                       const Eigen::VectorXd& damping) {
  const Eigen::Index m = jacobian.rows(), n = jacobian.cols();
  DampedRows out{Eigen::MatrixXd(m + n, n), Eigen::VectorXd::Zero(m + n)};
  out.matrix.topRows(m) = jacobian;
  out.matrix.bottomRows(n) = damping.cwiseSqrt().asDiagonal();
  out.right.head(m) = -residuals;
  return out;
}

double scale_of_rows(double first, double square, bool damped) {
  if (first > 0 && damped) return first;
  return square > 0 ? 1 / std::sqrt(square) : 1;
}

std::optional<Eigen::VectorXd> solve_rows(const Eigen::MatrixXd& jacobian,
                                          const Eigen::VectorXd& residuals,
                                          const Eigen::VectorXd& damping,
                                          const Eigen::VectorXd& scale) {
  auto [stacked, right] = damped_rows(jacobian, residuals, damping);
  stacked = stacked * scale.asDiagonal();
  if (!stacked.allFinite() || !right.allFinite()) return std::nullopt;
  Eigen::VectorXd delta = scale.cwiseProduct(runtime::shortest_least_squares(
      stacked, right, rank_threshold(jacobian.rows(), jacobian.cols())));
  if (!delta.allFinite()) return std::nullopt;
  return delta;
}

DenseRows::DenseRows(const runtime::Model& model, std::span<const std::uint32_t> free)
    : model_(model),
      column_(model.scalars, -1),
      jacobian_(static_cast<Eigen::Index>(model.rows), static_cast<Eigen::Index>(free.size())),
      residuals_(static_cast<Eigen::Index>(model.rows)) {
  for (std::size_t k = 0; k < free.size(); ++k) column_[free[k]] = static_cast<std::int64_t>(k);
}

void DenseRows::refresh(runtime::Engine& engine) {
  engine.residuals({residuals_.data(), static_cast<std::size_t>(residuals_.size())});
  jacobian_.setZero();
  std::vector<double> values;
  std::vector<std::uint32_t> column;
  for (std::size_t t = 0; t < model_.terms.size(); ++t) {
    const runtime::Term& term = model_.terms[t];
    if (term.energy) continue;
    const std::size_t instances = term.batch->size(), slots = term.batch->parameter_columns();
    const std::size_t rows = term.topology->program.outputs.size();
    values.resize(instances * rows * slots);
    column.resize(instances);
    engine.jacobian(t, values);
    for (std::size_t s = 0; s < slots; ++s) {
      term.batch->copy_index_column(static_cast<std::uint32_t>(s), 0, column);
      for (std::size_t i = 0; i < instances; ++i) {
        const std::int64_t to = column_[column[i]];
        if (to < 0) continue;
        const auto first = static_cast<Eigen::Index>(term.batch->residual_row(i));
        for (std::size_t r = 0; r < rows; ++r)
          jacobian_(first + static_cast<Eigen::Index>(r), to) += values[(i * rows + r) * slots + s];
      }
    }
  }
}

std::optional<Eigen::VectorXd> DenseRows::solve(const Eigen::VectorXd& damping,
                                                const Eigen::VectorXd& scale) const {
  return solve_rows(jacobian_, residuals_, damping, scale);
}

double DenseRows::decrease(const Eigen::VectorXd& delta) const {
  const Eigen::VectorXd change = jacobian_ * delta;
  return -residuals_.dot(change) - change.squaredNorm() / 2;
}

}  // namespace topograd
