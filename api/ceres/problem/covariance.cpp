// Covariance of parameter blocks: blocks of the inverse of the normal matrix.
#include "covariance.hpp"

#include "../../../ir/error.hpp"
#include "../../../solver/linear/factor/normal_inverse.hpp"
#include "problem_impl.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <algorithm>
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
using topograd::DeterminedInverse;
using Pairs = std::vector<topograd::NormalInverse::Pair>;

}  // namespace

class CovarianceImpl {
 public:
  explicit CovarianceImpl(const Covariance::Options& options) : options_(options) {}

  bool Compute(const std::vector<BlockPair>& pairs, Problem& problem);
  bool GetBlock(Block a, Block b, bool tangent, double* out) const;
  bool GetAll(const std::vector<Block>& blocks, bool tangent, double* out) const;
  const std::set<Block>& undetermined() const { return undetermined_; }

 private:
  struct Known {
    int size = 0, tangent_size = 0;
    int column = -1;  ///< in J; -1 for constant blocks
    Matrix plus;      ///< derivative of Plus; empty without a manifold
  };

  void Read(const ProblemImpl& problem, const std::vector<BlockPair>& pairs);
  DeterminedInverse Invert(const SparseMatrix& J) const;
  std::optional<Matrix> Find(Block a, Block b, bool tangent) const;

  Covariance::Options options_;
  std::map<Block, Known> blocks_;
  std::map<BlockPair, Matrix> covariances_;  ///< in tangent space
  std::set<Block> undetermined_;             ///< of the last Compute
};

void CovarianceImpl::Read(const ProblemImpl& problem, const std::vector<BlockPair>& pairs) {
  blocks_.clear();
  covariances_.clear();
  undetermined_.clear();
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
    if (!seen.emplace(a, b).second)
      throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                            "Covariance::Compute: a pair of parameter blocks is named twice");
  }
}

DeterminedInverse CovarianceImpl::Invert(const SparseMatrix& J) const {
  if (options_.algorithm_type == DENSE_SVD)
    return DeterminedInverse::dense(Eigen::MatrixXd(J), options_.min_reciprocal_condition_number,
                                    options_.null_space_rank);
  SparseMatrix normal = J.transpose() * J;
  for (Eigen::Index k = 0; k < normal.cols(); ++k) normal.coeffRef(k, k) += 0;  // all are there
  return DeterminedInverse::sparse(
      normal.triangularView<Eigen::Lower>(), [&] { return J; }, options_.column_pivot_threshold,
      std::max(options_.num_threads, 1));
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
  const DeterminedInverse inverse = Invert(ToEigen(jacobian));
  const std::vector<Eigen::MatrixXd> blocks = inverse.blocks(ranges);
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const auto& [a, b] = ranges[k];
    if (inverse.undetermined(a)) undetermined_.insert(wanted[k].first);
    if (inverse.undetermined(b)) undetermined_.insert(wanted[k].second);
    if (inverse.undetermined(a) || inverse.undetermined(b))
      covariances_.erase(wanted[k]);
    else
      covariances_.at(wanted[k]) = blocks[k];
  }
  return undetermined_.empty();
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

std::vector<const double*> Covariance::UndeterminedBlocks() const {
  return {impl_->undetermined().begin(), impl_->undetermined().end()};
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
