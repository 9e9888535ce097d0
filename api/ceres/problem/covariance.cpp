// Covariance of parameter blocks: blocks of the inverse of the normal matrix.
#include "covariance.hpp"

#include "../../../ir/error.hpp"
#include "../../../solver/linear/factor/normal_inverse.hpp"
#include "problem_impl.hpp"

#include <Eigen/Core>
#include <Eigen/OrderingMethods>
#include <Eigen/SVD>
#include <Eigen/SparseCore>
#include <Eigen/SparseQR>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ceres {
namespace internal {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;
using SparseMatrix = Eigen::SparseMatrix<double>;
using Block = const double*;
using BlockPair = std::pair<Block, Block>;

SparseMatrix ToEigen(const CRSMatrix& m) {
  using Rows = Eigen::SparseMatrix<double, Eigen::RowMajor>;
  SparseMatrix out =
      Eigen::Map<const Rows>(m.num_rows, m.num_cols, static_cast<Eigen::Index>(m.values.size()),
                             m.rows.data(), m.cols.data(), m.values.data());
  out.makeCompressed();
  return out;
}

using topograd::CoordinateRange;
using topograd::NormalInverse;
using Pairs = std::vector<NormalInverse::Pair>;

/// Blocks of (JᵀJ)⁻¹.
class Inverse {
 public:
  virtual ~Inverse() = default;
  virtual std::vector<Eigen::MatrixXd> Blocks(const Pairs& pairs) const = 0;
};

/// By columns, each of which serves all pairs of one second block.
class InverseByColumns : public Inverse {
 public:
  std::vector<Eigen::MatrixXd> Blocks(const Pairs& pairs) const override {
    std::vector<Eigen::MatrixXd> out(pairs.size());
    std::map<std::uint32_t, std::vector<std::size_t>> of_column;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      out[k].resize(pairs[k].a.count, pairs[k].b.count);
      of_column[pairs[k].b.first].push_back(k);
    }
    for (const auto& [first, group] : of_column) {
      for (std::uint32_t c = 0; c < pairs[group[0]].b.count; ++c) {
        const Eigen::VectorXd column = Column(first + c);
        for (const std::size_t k : group)
          out[k].col(c) = column.segment(pairs[k].a.first, pairs[k].a.count);
      }
    }
    return out;
  }

 private:
  virtual Eigen::VectorXd Column(Eigen::Index column) const = 0;
};

/// From the Cholesky factor of JᵀJ, where that has enough digits.
class NormalFactor final : public Inverse {
 public:
  NormalFactor(const SparseMatrix& J, int threads) {
    const SparseMatrix normal = J.transpose() * J;
    inverse_ = NormalInverse::make(normal.triangularView<Eigen::Lower>(), threads);
  }
  bool usable() const { return inverse_ != nullptr; }
  std::vector<Eigen::MatrixXd> Blocks(const Pairs& pairs) const override {
    return inverse_->blocks(pairs);
  }

 private:
  std::unique_ptr<NormalInverse> inverse_;
};

/// From J P = Q R: (JᵀJ)⁻¹ = P R⁻¹ R⁻ᵀ Pᵀ.
class SparseInverse final : public InverseByColumns {
 public:
  SparseInverse(const SparseMatrix& J, double threshold) {
    if (threshold >= 0) qr_.setPivotThreshold(threshold);
    qr_.compute(J);
    full_rank_ = qr_.info() == Eigen::Success && qr_.rank() == J.cols();
    if (full_rank_) R_ = qr_.matrixR().topLeftCorner(J.cols(), J.cols());
  }
  bool full_rank() const { return full_rank_; }

 private:
  Eigen::VectorXd Column(Eigen::Index column) const override {
    Eigen::VectorXd x = Eigen::VectorXd::Unit(R_.cols(), column);
    x = qr_.colsPermutation().transpose() * x;
    R_.transpose().triangularView<Eigen::Lower>().solveInPlace(x);
    R_.triangularView<Eigen::Upper>().solveInPlace(x);
    return qr_.colsPermutation() * x;
  }

  Eigen::SparseQR<SparseMatrix, Eigen::COLAMDOrdering<int>> qr_;
  SparseMatrix R_;
  bool full_rank_ = false;
};

/// From J = U S Vᵀ: V S⁻² Vᵀ, without the omitted directions.
class DenseInverse final : public InverseByColumns {
 public:
  DenseInverse(const SparseMatrix& J, const Covariance::Options& options) {
    const Eigen::BDCSVD<Eigen::MatrixXd> svd(Eigen::MatrixXd(J), Eigen::ComputeThinV);
    const Eigen::VectorXd& s = svd.singularValues();
    const Eigen::Index missing = J.cols() - s.size();  // fewer rows than columns
    const double least =
        s.size() == 0 ? 0 : s[0] * std::sqrt(options.min_reciprocal_condition_number);
    Eigen::Index kept = s.size();
    if (options.null_space_rank >= 0) {
      kept = std::min<Eigen::Index>(kept, J.cols() - options.null_space_rank);
      full_rank_ = kept > 0 && missing <= options.null_space_rank && s[kept - 1] >= least;
    } else {
      while (kept > 0 && s[kept - 1] < least) --kept;
      full_rank_ = kept > 0;
    }
    if (!full_rank_) return;
    scaled_ = svd.matrixV().leftCols(kept) * s.head(kept).cwiseInverse().asDiagonal();
  }
  bool full_rank() const { return full_rank_; }

 private:
  Eigen::VectorXd Column(Eigen::Index column) const override {
    return scaled_ * scaled_.row(column).transpose();
  }

  Eigen::MatrixXd scaled_;
  bool full_rank_ = false;
};

}  // namespace

class CovarianceImpl {
 public:
  explicit CovarianceImpl(const Covariance::Options& options) : options_(options) {}

  bool Compute(const std::vector<BlockPair>& pairs, Problem& problem);
  bool GetBlock(Block a, Block b, bool tangent, double* out) const;
  bool GetAll(const std::vector<Block>& blocks, bool tangent, double* out) const;

 private:
  struct Known {
    int size = 0, tangent_size = 0;
    int column = -1;  ///< in J; -1 for constant blocks
    Matrix plus;      ///< derivative of Plus; empty without a manifold
  };

  void Read(const ProblemImpl& problem, const std::vector<BlockPair>& pairs);
  std::unique_ptr<Inverse> Invert(const SparseMatrix& J) const;
  std::optional<Matrix> Find(Block a, Block b, bool tangent) const;

  Covariance::Options options_;
  std::map<Block, Known> blocks_;
  std::map<BlockPair, Matrix> covariances_;  ///< in tangent space
};

void CovarianceImpl::Read(const ProblemImpl& problem, const std::vector<BlockPair>& pairs) {
  blocks_.clear();
  covariances_.clear();
  int column = 0;
  for (const auto& block : problem.parameters()) {
    Known& known = blocks_[block->values];
    known.size = block->size;
    known.tangent_size = block->tangent_size();
    if (!block->constant) {
      known.column = column;
      column += known.tangent_size;
    }
    if (block->manifold == nullptr) continue;
    known.plus.resize(known.size, known.tangent_size);
    block->manifold->PlusJacobian(block->values, known.plus.data());
  }
  std::set<BlockPair> seen;
  for (const auto& [a, b] : pairs) {
    problem.At("Covariance::Compute", a);
    problem.At("Covariance::Compute", b);
    if (!seen.insert(std::minmax(a, b)).second)
      throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                            "Covariance::Compute: a pair of parameter blocks is named twice");
  }
}

std::unique_ptr<Inverse> CovarianceImpl::Invert(const SparseMatrix& J) const {
  if (options_.algorithm_type == DENSE_SVD) {
    auto inverse = std::make_unique<DenseInverse>(J, options_);
    if (inverse->full_rank()) return inverse;
  } else {
    // A threshold is about columns of R.
    if (options_.column_pivot_threshold < 0) {
      auto inverse = std::make_unique<NormalFactor>(J, std::max(options_.num_threads, 1));
      if (inverse->usable()) return inverse;
    }
    auto inverse = std::make_unique<SparseInverse>(J, options_.column_pivot_threshold);
    if (inverse->full_rank()) return inverse;
  }
  return nullptr;
}

bool CovarianceImpl::Compute(const std::vector<BlockPair>& pairs, Problem& problem) {
  const ProblemImpl& impl = ProblemAccess::impl(problem);
  Read(impl, pairs);
  Problem::EvaluateOptions evaluate;
  evaluate.apply_loss_function = options_.apply_loss_function;
  for (const auto& block : impl.parameters())
    if (!block->constant) evaluate.parameter_blocks.push_back(block->values);
  std::vector<BlockPair> wanted;
  Pairs ranges;
  const auto range = [&](Block block) {
    const Known& known = blocks_.at(block);
    return CoordinateRange{static_cast<std::uint32_t>(known.column),
                           static_cast<std::uint32_t>(known.tangent_size)};
  };
  for (const auto& [a, b] : pairs) {
    covariances_[{a, b}] = Matrix::Zero(blocks_.at(a).tangent_size, blocks_.at(b).tangent_size);
    if (blocks_.at(a).column < 0 || blocks_.at(b).column < 0) continue;
    wanted.emplace_back(a, b);
    ranges.push_back({range(a), range(b)});
  }
  if (wanted.empty()) return true;
  CRSMatrix jacobian;
  if (!problem.Evaluate(evaluate, nullptr, nullptr, nullptr, &jacobian)) return false;
  const std::unique_ptr<Inverse> inverse = Invert(ToEigen(jacobian));
  if (!inverse) {
    covariances_.clear();
    return false;
  }
  const std::vector<Eigen::MatrixXd> blocks = inverse->Blocks(ranges);
  for (std::size_t k = 0; k < wanted.size(); ++k) covariances_.at(wanted[k]) = blocks[k];
  return true;
}

std::optional<Matrix> CovarianceImpl::Find(Block a, Block b, bool tangent) const {
  const auto direct = covariances_.find({a, b});
  const auto other = covariances_.find({b, a});
  if (direct == covariances_.end() && other == covariances_.end()) return std::nullopt;
  Matrix covariance =
      direct != covariances_.end() ? direct->second : Matrix(other->second.transpose());
  if (tangent) return covariance;
  const Matrix& from_a = blocks_.at(a).plus;
  const Matrix& from_b = blocks_.at(b).plus;
  if (from_a.rows() != 0) covariance = (from_a * covariance).eval();
  if (from_b.rows() != 0) covariance = (covariance * from_b.transpose()).eval();
  return covariance;
}

bool CovarianceImpl::GetBlock(Block a, Block b, bool tangent, double* out) const {
  const std::optional<Matrix> found = Find(a, b, tangent);
  if (found) std::copy_n(found->data(), found->size(), out);
  return found.has_value();
}

bool CovarianceImpl::GetAll(const std::vector<Block>& blocks, bool tangent, double* out) const {
  int total = 0;
  std::vector<int> first, width;
  for (const Block block : blocks) {
    const auto known = blocks_.find(block);
    if (known == blocks_.end()) return false;
    first.push_back(total);
    width.push_back(tangent ? known->second.tangent_size : known->second.size);
    total += width.back();
  }
  MatrixMap matrix(out, total, total);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      const std::optional<Matrix> part = Find(blocks[i], blocks[j], tangent);
      if (!part) return false;
      matrix.block(first[i], first[j], width[i], width[j]) = *part;
    }
  }
  return true;
}

}  // namespace internal

Covariance::Covariance(const Options& options)
    : impl_(std::make_unique<internal::CovarianceImpl>(options)) {}
Covariance::~Covariance() = default;

bool Covariance::Compute(
    const std::vector<std::pair<const double*, const double*>>& covariance_blocks,
    Problem* problem) {
  return impl_->Compute(covariance_blocks, *problem);
}

bool Covariance::Compute(const std::vector<const double*>& parameter_blocks, Problem* problem) {
  std::vector<std::pair<const double*, const double*>> pairs;
  for (std::size_t i = 0; i < parameter_blocks.size(); ++i)
    for (std::size_t j = i; j < parameter_blocks.size(); ++j)
      pairs.emplace_back(parameter_blocks[i], parameter_blocks[j]);
  return impl_->Compute(pairs, *problem);
}

bool Covariance::GetCovarianceBlock(const double* parameter_block1, const double* parameter_block2,
                                    double* covariance_block) const {
  return impl_->GetBlock(parameter_block1, parameter_block2, false, covariance_block);
}
bool Covariance::GetCovarianceBlockInTangentSpace(const double* parameter_block1,
                                                  const double* parameter_block2,
                                                  double* covariance_block) const {
  return impl_->GetBlock(parameter_block1, parameter_block2, true, covariance_block);
}
bool Covariance::GetCovarianceMatrix(const std::vector<const double*>& parameter_blocks,
                                     double* covariance_matrix) const {
  return impl_->GetAll(parameter_blocks, false, covariance_matrix);
}
bool Covariance::GetCovarianceMatrixInTangentSpace(
    const std::vector<const double*>& parameter_blocks, double* covariance_matrix) const {
  return impl_->GetAll(parameter_blocks, true, covariance_matrix);
}

}  // namespace ceres
