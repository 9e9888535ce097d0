// Eigenvectors of small matrices, the sparse factor of others.
#include "symmetric_solver.hpp"

#include "../../runtime/cpu/factor/sparse_factor.hpp"
#include "../linear/factor/lower_pattern.hpp"

#include <Eigen/Eigenvalues>

#include <cmath>
#include <span>

namespace topograd {
namespace {

/// Up to this size eigenvalues tell how far from singular a matrix is.
constexpr Eigen::Index kLargestDense = 160;
/// Least eigenvalue or pivot of a matrix with a unit diagonal, times its size: below it, rounding
/// has made it.
constexpr double kLeastShare = 1e-15;

}  // namespace

struct SymmetricSolver::Impl {
  using Eigenvectors = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;

  Impl(const SparseMatrix& lower, int threads) : scale(lower.cols()) {
    for (Eigen::Index k = 0; k < lower.cols(); ++k) {
      const double diagonal = lower.coeff(k, k);
      if (!(diagonal > 0) || !std::isfinite(diagonal)) {
        failure = {static_cast<std::uint32_t>(k), diagonal};
        return;
      }
      scale[k] = 1 / std::sqrt(diagonal);
    }
    if (lower.cols() == 0) return;  // nothing is free
    const SparseMatrix scaled = scaled_by(scale, lower);
    if (scaled.cols() <= kLargestDense)
      decompose(scaled);
    else
      factorise(scaled, threads);
  }

  void decompose(const SparseMatrix& scaled) {
    dense.emplace(Eigen::MatrixXd(scaled), Eigen::ComputeEigenvectors);
    const Eigen::VectorXd& values = dense->eigenvalues();
    const double least = values[0] / values[values.size() - 1];
    if (least > kLeastShare * static_cast<double>(values.size())) return;
    Eigen::Index column = 0;
    dense->eigenvectors().col(0).cwiseAbs().maxCoeff(&column);
    failure = {static_cast<std::uint32_t>(column), least};
  }

  void factorise(const SparseMatrix& scaled, int threads) {
    sparse.emplace(runtime::make_factor_plan(pattern_of(scaled)), threads);
    const runtime::FactorReport report = sparse->factor(values_of(scaled));
    if (report.end != runtime::FactorEnd::complete)
      failure = {report.column, report.pivot};
    else if (sparse->least_pivot() <= kLeastShare * std::sqrt(static_cast<double>(scaled.cols())))
      failure = {static_cast<std::uint32_t>(scaled.cols()), sparse->least_pivot()};
  }

  Eigen::VectorXd solve(const Eigen::VectorXd& right) const {
    const Eigen::VectorXd scaled = scale.cwiseProduct(right);
    Eigen::VectorXd out(right.size());
    if (dense) {
      const Eigen::VectorXd along = dense->eigenvectors().transpose() * scaled;
      out = dense->eigenvectors() * along.cwiseQuotient(dense->eigenvalues());
    } else if (sparse) {
      sparse->solve({scaled.data(), static_cast<std::size_t>(scaled.size())},
                    {out.data(), static_cast<std::size_t>(out.size())});
    }
    return scale.cwiseProduct(out);
  }

  Eigen::VectorXd scale;
  std::optional<Eigenvectors> dense;
  std::optional<runtime::cpu::SparseFactor> sparse;
  std::optional<Failure> failure;
};

SymmetricSolver::SymmetricSolver(const SparseMatrix& lower, int threads)
    : impl_(std::make_unique<Impl>(lower, threads)) {}
SymmetricSolver::~SymmetricSolver() = default;
SymmetricSolver::SymmetricSolver(SymmetricSolver&&) noexcept = default;
SymmetricSolver& SymmetricSolver::operator=(SymmetricSolver&&) noexcept = default;

const std::optional<SymmetricSolver::Failure>& SymmetricSolver::failure() const {
  return impl_->failure;
}
Eigen::VectorXd SymmetricSolver::solve(const Eigen::VectorXd& right) const {
  return impl_->solve(right);
}

}  // namespace topograd
