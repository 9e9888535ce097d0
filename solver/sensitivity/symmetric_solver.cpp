// Eigenvectors of small matrices, the sparse factor of others.
#include "symmetric_solver.hpp"

#include "../../runtime/cpu/factor/sparse_factor.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../linear/factor/lower_pattern.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <vector>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;
using Columns = std::vector<std::uint32_t>;

/// Up to this size eigenvalues tell how far from singular a matrix is.
constexpr Eigen::Index kLargestDense = 160;
/// Least eigenvalue or pivot of a matrix with a unit diagonal, times its size: below it, rounding
/// has made it.
constexpr double kLeastShare = 1e-15;
/// In a matrix that is singular by that bound, eigenvalues up to this one, times its size, are 0;
/// and pivots or eigenvalues below minus the second bound are negative.
constexpr double kZero = 1e-14, kNegative = 1e-10;
/// An unknown is determined if no null vector has a larger part along it.
constexpr double kNoPart = 1e-8;

/// By column: an entry of it or of its row is not 0.
std::vector<bool> present_columns(const SparseMatrix& lower) {
  std::vector<bool> out(static_cast<std::size_t>(lower.cols()), false);
  for (Eigen::Index c = 0; c < lower.cols(); ++c)
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it)
      if (it.value() != 0)
        out[static_cast<std::size_t>(c)] = out[static_cast<std::size_t>(it.row())] = true;
  return out;
}

}  // namespace

struct SymmetricSolver::Impl {
  /// One matrix with a unit diagonal, on some columns of H.
  class Part {
   public:
    using Failure = SymmetricSolver::Failure;

    Part(const SparseMatrix& scaled, Columns columns, int threads)
        : columns_(std::move(columns)), determined_(columns_.size(), true) {
      if (scaled.cols() <= kLargestDense)
        decompose(scaled);
      else
        factorise(scaled, threads);
    }

    /// Set if the matrix is not positive definite in working precision.
    const std::optional<Failure>& failure() const { return failure_; }
    bool indefinite() const { return failure_ && failure_->pivot < -kNegative; }
    const Columns& columns() const { return columns_; }
    bool determined(std::size_t k) const { return determined_[k]; }

    void solve(const Vector& right, Vector& out) const {
      Vector own(static_cast<Eigen::Index>(columns_.size())), found = Vector::Zero(own.size());
      for (std::size_t k = 0; k < columns_.size(); ++k)
        own[static_cast<Eigen::Index>(k)] = right[columns_[k]];
      if (dense_) {
        Vector along = dense_->vectors().transpose() * own;
        for (Eigen::Index k = 0; k < along.size(); ++k)
          along[k] = k < zeros_ ? 0 : along[k] / dense_->values()[k];
        found = dense_->vectors() * along;
      } else if (sparse_ && !failure_) {
        sparse_->solve({own.data(), columns_.size()}, {found.data(), columns_.size()});
      }
      for (std::size_t k = 0; k < columns_.size(); ++k)
        out[columns_[k]] = found[static_cast<Eigen::Index>(k)];
    }

   private:
    void decompose(const SparseMatrix& scaled) {
      dense_.emplace(Eigen::MatrixXd(scaled));
      const Vector& values = dense_->values();
      const double largest = values[values.size() - 1], least = values[0] / largest;
      const auto size = static_cast<double>(values.size());
      if (least > kLeastShare * size) return;
      Eigen::Index column = 0;
      dense_->vectors().col(0).cwiseAbs().maxCoeff(&column);
      failure_ = {columns_[static_cast<std::size_t>(column)], least};
      while (zeros_ < values.size() && values[zeros_] <= kZero * size * largest) ++zeros_;
      for (std::size_t k = 0; k < columns_.size(); ++k)
        determined_[k] = dense_->vectors()
                             .row(static_cast<Eigen::Index>(k))
                             .head(zeros_)
                             .cwiseAbs()
                             .maxCoeff() <= kNoPart;
    }

    void factorise(const SparseMatrix& scaled, int threads) {
      sparse_.emplace(runtime::make_factor_plan(pattern_of(scaled)), threads);
      const runtime::FactorReport report = sparse_->factor(values_of(scaled));
      if (report.end != runtime::FactorEnd::complete)
        failure_ = {columns_[report.column], report.pivot};
      else if (sparse_->least_pivot() <=
               kLeastShare * std::sqrt(static_cast<double>(scaled.cols())))
        failure_ = {kNowhere, sparse_->least_pivot()};
      if (failure_) determined_.assign(columns_.size(), false);
    }

    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};  // beyond all columns

    Columns columns_;  // ascending
    std::vector<bool> determined_;
    std::optional<Failure> failure_;
    std::optional<runtime::SymmetricEigen> dense_;
    Eigen::Index zeros_ = 0;  // eigenvalues
    std::optional<runtime::cpu::SparseFactor> sparse_;
  };

  Impl(const SparseMatrix& lower, int threads)
      : scale(Vector::Zero(lower.cols())),
        unknowns(static_cast<std::size_t>(lower.cols()), Unknown::absent) {
    const std::vector<bool> present = present_columns(lower);
    Columns columns;
    for (Eigen::Index k = 0; k < lower.cols(); ++k) {
      if (!present[static_cast<std::size_t>(k)]) continue;
      const double diagonal = lower.coeff(k, k);
      if (!(diagonal > 0) || !std::isfinite(diagonal)) {
        failure = {static_cast<std::uint32_t>(k), diagonal};
        return;
      }
      scale[k] = 1 / std::sqrt(diagonal);
      columns.push_back(static_cast<std::uint32_t>(k));
    }
    if (columns.empty()) {
      if (lower.cols() > 0) failure = {0, 0};
      return;  // nothing is free
    }
    const SparseMatrix scaled = scaled_by(scale, lower);
    add(scaled, columns, threads);
    if (parts.back().failure()) split(scaled, columns, threads);
    if (!failure) mark();
  }

  void add(const SparseMatrix& scaled, const Columns& columns, int threads) {
    const bool whole = columns.size() == unknowns.size();
    parts.emplace_back(whole ? scaled : lower_part(scaled, columns), columns, threads);
  }

  /// One part for each component, of which some are singular.
  void split(const SparseMatrix& scaled, const Columns& columns, int threads) {
    const Failure first = *parts.back().failure();
    const Columns component = components(scaled);
    std::map<std::uint32_t, Columns> members;
    for (const std::uint32_t k : columns) members[component[k]].push_back(k);
    if (members.size() > 1) {
      parts.clear();
      for (const auto& [root, own] : members) add(scaled, own, threads);
    }
    for (const Part& part : parts) {
      if (!part.indefinite()) continue;
      failure = part.failure();
      return;
    }
    const bool any = std::ranges::any_of(parts, [](const Part& part) {
      for (std::size_t k = 0; k < part.columns().size(); ++k)
        if (part.determined(k)) return true;
      return false;
    });
    if (!any) failure = first;
  }

  void mark() {
    for (const Part& part : parts)
      for (std::size_t k = 0; k < part.columns().size(); ++k)
        unknowns[part.columns()[k]] = part.determined(k) ? Unknown::determined : Unknown::singular;
  }

  Vector solve(const Vector& right) const {
    const Vector scaled = scale.cwiseProduct(right);
    Vector out = Vector::Zero(right.size());
    for (const Part& part : parts) part.solve(scaled, out);
    return scale.cwiseProduct(out);
  }

  Vector scale;
  std::vector<Unknown> unknowns;
  std::deque<Part> parts;
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
SymmetricSolver::Unknown SymmetricSolver::unknown(Eigen::Index column) const {
  return impl_->unknowns[static_cast<std::size_t>(column)];
}
Vector SymmetricSolver::solve(const Vector& right) const { return impl_->solve(right); }

}  // namespace topograd
