// ceres::Problem: the blocks that it adds, finds, removes and owns, and the calls that users make.
#include "problem.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "../../../frontend/host_residual.hpp"
#include "../../../ir/error.hpp"
#include "problem_impl.hpp"

namespace ceres::internal {
namespace {

using topograd::Error;
using topograd::ErrorCode;

template <class Function, class Users>
void Forget(Function* function, Users& users) {
  const auto at = users.find(function);
  if (at == users.end() || --at->second > 0) return;
  users.erase(at);
  delete function;
}

/// Replaces the element by the last one, so that removal takes constant time.
template <class Block>
void RemoveAt(std::vector<std::unique_ptr<Block>>& blocks, std::size_t position) {
  blocks[position].swap(blocks.back());
  blocks[position]->position = position;
  blocks.pop_back();
}

std::string Sizes(std::span<const std::int32_t> sizes) {
  std::string text;
  for (const std::int32_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

}  // namespace

ProblemImpl::~ProblemImpl() {
  for (const auto& [function, users] : cost_users_) delete function;
  for (const auto& [function, users] : loss_users_) delete function;
  std::sort(manifolds_.begin(), manifolds_.end());
  manifolds_.erase(std::unique(manifolds_.begin(), manifolds_.end()), manifolds_.end());
  for (Manifold* manifold : manifolds_) delete manifold;
}

void ProblemImpl::CheckBlocks(const CostFunction& cost, std::span<double* const> blocks) const {
  const std::span<const std::int32_t> sizes = cost.parameter_block_sizes();
  const auto fail = [&](ErrorCode code, const std::string& what) {
    throw Error(code, "AddResidualBlock: " + what + ", in residual block #" +
                          std::to_string(residuals_.size()));
  };
  if (sizes.size() != blocks.size())
    fail(ErrorCode::Shape, "expected " + std::to_string(sizes.size()) +
                               " parameter blocks (the cost function reads blocks of " +
                               Sizes(sizes) + "), got " + std::to_string(blocks.size()));
  if (cost.num_residuals() < 1)
    fail(ErrorCode::Shape, "expected a cost function with at least one residual, got " +
                               std::to_string(cost.num_residuals()));
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const std::string name = "parameter block " + std::to_string(k);
    if (blocks[k] == nullptr) fail(ErrorCode::InvalidArgument, name + " is a null pointer");
    const ParameterBlock* known = Find(blocks[k]);
    if (known != nullptr && known->size != sizes[k])
      fail(ErrorCode::Shape, name + " has size " + std::to_string(known->size) +
                                 ", the cost function expects " + std::to_string(sizes[k]));
    if (std::find(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(k), blocks[k]) !=
        blocks.begin() + static_cast<std::ptrdiff_t>(k))
      fail(ErrorCode::InvalidArgument, name + " is named twice");
  }
}

ResidualBlock* ProblemImpl::Add(CostFunction* cost, LossFunction* loss,
                                std::span<double* const> blocks) {
  // The problem owns its arguments even if the call fails, so that errors leak nothing.
  if (cost != nullptr && options_.cost_function_ownership == TAKE_OWNERSHIP) ++cost_users_[cost];
  if (loss != nullptr && options_.loss_function_ownership == TAKE_OWNERSHIP) ++loss_users_[loss];
  try {
    return Append(cost, loss, blocks);
  } catch (...) {
    if (cost != nullptr) Forget(cost, cost_users_);
    if (loss != nullptr) Forget(loss, loss_users_);
    throw;
  }
}

ResidualBlock* ProblemImpl::Append(CostFunction* cost, LossFunction* loss,
                                   std::span<double* const> blocks) {
  if (cost == nullptr)
    throw Error(ErrorCode::InvalidArgument, "AddResidualBlock: the cost function is null");
  CheckBlocks(*cost, blocks);
  auto residual = std::make_unique<ResidualBlock>();
  residual->cost = cost;
  residual->loss = loss;
  residual->traceable = dynamic_cast<const Traceable*>(cost);
  residual->position = residuals_.size();
  residual->parameters.reserve(blocks.size());
  for (std::size_t k = 0; k < blocks.size(); ++k)
    residual->parameters.push_back(&AddParameters(blocks[k], cost->parameter_block_sizes()[k]));
  residuals_.push_back(std::move(residual));
  return residuals_.back().get();
}

ParameterBlock& ProblemImpl::AddParameters(double* values, int size) {
  const auto fail = [&](ErrorCode code, const std::string& what) {
    throw Error(code, "AddParameterBlock: " + what);
  };
  if (values == nullptr) fail(ErrorCode::InvalidArgument, "the block is a null pointer");
  if (size < 1)
    fail(ErrorCode::InvalidArgument, "expected a size of at least 1, got " + std::to_string(size));
  const auto [at, is_new] = by_address_.try_emplace(values);
  if (is_new) {
    parameters_.push_back(std::make_unique<ParameterBlock>());
    ParameterBlock& block = *parameters_.back();
    block.values = values;
    block.size = size;
    block.position = parameters_.size() - 1;
    at->second = &block;
  } else if (at->second->size != size) {
    fail(ErrorCode::Shape, "the block is there with size " + std::to_string(at->second->size) +
                               ", got " + std::to_string(size));
  }
  return *at->second;
}

ParameterizationManifold* ProblemImpl::Adapt(LocalParameterization* parameterization) {
  if (parameterization == nullptr) return nullptr;
  auto& adapter = parameterizations_[parameterization];
  if (adapter == nullptr)
    adapter = std::make_unique<ParameterizationManifold>(parameterization,
                                                         options_.local_parameterization_ownership);
  return adapter.get();
}

void ProblemImpl::SetManifold(ParameterBlock& block, Manifold* manifold) {
  if (manifold != nullptr && manifold->AmbientSize() != block.size)
    throw Error(ErrorCode::Shape, "SetManifold: expected a manifold in blocks of " +
                                      std::to_string(block.size) + ", got one in blocks of " +
                                      std::to_string(manifold->AmbientSize()));
  block.manifold = manifold;
  block.parameterization = nullptr;
}

void ProblemImpl::Own(Manifold* manifold) {
  if (manifold != nullptr && options_.manifold_ownership == TAKE_OWNERSHIP &&
      (manifolds_.empty() || manifolds_.back() != manifold))
    manifolds_.push_back(manifold);
}

void ProblemImpl::Release(ResidualBlock& residual) {
  Forget(residual.cost, cost_users_);
  if (residual.loss != nullptr) Forget(residual.loss, loss_users_);
}

void ProblemImpl::Remove(ResidualBlock* residual) {
  const bool there = residual != nullptr && residual->position < residuals_.size() &&
                     residuals_[residual->position].get() == residual;
  if (!there)
    throw Error(ErrorCode::InvalidArgument, "RemoveResidualBlock: the block is not there");
  Release(*residual);
  RemoveAt(residuals_, residual->position);
}

void ProblemImpl::RemoveParameters(const double* values) {
  ParameterBlock& block = At("RemoveParameterBlock", values);
  for (std::size_t k = residuals_.size(); k-- > 0;) {
    ResidualBlock& residual = *residuals_[k];
    if (std::ranges::find(residual.parameters, &block) != residual.parameters.end())
      Remove(&residual);
  }
  by_address_.erase(values);
  RemoveAt(parameters_, block.position);
}

ParameterBlock* ProblemImpl::Find(const double* values) const {
  const auto at = by_address_.find(values);
  return at == by_address_.end() ? nullptr : at->second;
}

ParameterBlock& ProblemImpl::At(const char* call, const double* values) const {
  if (ParameterBlock* block = Find(values)) return *block;
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) +
                  ": the parameter block is not part of this problem (problem has " +
                  std::to_string(parameters_.size()) + ")");
}

}  // namespace ceres::internal

namespace ceres {
namespace {

using internal::ParameterBlock;
using internal::ResidualBlock;

constexpr double kUnbounded = std::numeric_limits<double>::max();

double& Bound(const char* call, std::vector<double>& bounds, const ParameterBlock& block, int index,
              double none) {
  if (index < 0 || index >= block.size)
    throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                          std::string(call) + ": coordinate " + std::to_string(index) +
                              " is out of range (the block has " + std::to_string(block.size) +
                              ")");
  if (bounds.empty()) bounds.assign(static_cast<std::size_t>(block.size), none);
  return bounds[static_cast<std::size_t>(index)];
}

double BoundOr(const std::vector<double>& bounds, int index, double none) {
  const auto k = static_cast<std::size_t>(index);
  return index >= 0 && k < bounds.size() ? bounds[k] : none;
}

}  // namespace

// The key functions of the interfaces.
IterationCallback::~IterationCallback() = default;
EvaluationCallback::~EvaluationCallback() = default;

Problem::Problem() : Problem(Options()) {}
Problem::Problem(const Options& options)
    : impl_(std::make_unique<internal::ProblemImpl>(options)) {}
Problem::~Problem() = default;
Problem::Problem(Problem&&) noexcept = default;
Problem& Problem::operator=(Problem&&) noexcept = default;

ResidualBlockId Problem::AddResidualBlock(CostFunction* cost_function, LossFunction* loss_function,
                                          const std::vector<double*>& parameter_blocks) {
  return impl_->Add(cost_function, loss_function, parameter_blocks);
}

ResidualBlockId Problem::AddResidualBlock(CostFunction* cost_function, LossFunction* loss_function,
                                          double* const* parameter_blocks,
                                          int num_parameter_blocks) {
  return impl_->Add(cost_function, loss_function,
                    {parameter_blocks, static_cast<std::size_t>(num_parameter_blocks)});
}

void Problem::AddParameterBlock(double* values, int size) { impl_->AddParameters(values, size); }
void Problem::AddParameterBlock(double* values, int size, Manifold* manifold) {
  impl_->Own(manifold);  // before any exception
  impl_->SetManifold(impl_->AddParameters(values, size), manifold);
}
void Problem::RemoveParameterBlock(const double* values) { impl_->RemoveParameters(values); }
void Problem::RemoveResidualBlock(ResidualBlockId residual_block) { impl_->Remove(residual_block); }

void Problem::SetParameterBlockConstant(const double* values) {
  impl_->At("SetParameterBlockConstant", values).constant = true;
}
void Problem::SetParameterBlockVariable(double* values) {
  impl_->At("SetParameterBlockVariable", values).constant = false;
}
bool Problem::IsParameterBlockConstant(const double* values) const {
  const ParameterBlock& block = impl_->At("IsParameterBlockConstant", values);
  return block.constant || block.tangent_size() == 0;
}

void Problem::SetManifold(double* values, Manifold* manifold) {
  impl_->Own(manifold);
  impl_->SetManifold(impl_->At("SetManifold", values), manifold);
}
const Manifold* Problem::GetManifold(const double* values) const {
  return impl_->At("GetManifold", values).manifold;
}
bool Problem::HasManifold(const double* values) const { return GetManifold(values) != nullptr; }

void Problem::SetParameterization(double* values, LocalParameterization* parameterization) {
  Manifold* manifold = impl_->Adapt(parameterization);
  ParameterBlock& block = impl_->At("SetParameterization", values);
  impl_->SetManifold(block, manifold);
  block.parameterization = parameterization;
}
const LocalParameterization* Problem::GetParameterization(const double* values) const {
  return impl_->At("GetParameterization", values).parameterization;
}
bool Problem::HasParameterization(const double* values) const {
  return GetParameterization(values) != nullptr;
}

void Problem::SetParameterLowerBound(double* values, int index, double lower_bound) {
  constexpr const char* kCall = "SetParameterLowerBound";
  ParameterBlock& block = impl_->At(kCall, values);
  Bound(kCall, block.lower, block, index, -kUnbounded) = lower_bound;
}
void Problem::SetParameterUpperBound(double* values, int index, double upper_bound) {
  constexpr const char* kCall = "SetParameterUpperBound";
  ParameterBlock& block = impl_->At(kCall, values);
  Bound(kCall, block.upper, block, index, kUnbounded) = upper_bound;
}
double Problem::GetParameterLowerBound(const double* values, int index) const {
  return BoundOr(impl_->At("GetParameterLowerBound", values).lower, index, -kUnbounded);
}
double Problem::GetParameterUpperBound(const double* values, int index) const {
  return BoundOr(impl_->At("GetParameterUpperBound", values).upper, index, kUnbounded);
}

int Problem::NumParameterBlocks() const { return static_cast<int>(impl_->parameters().size()); }
int Problem::NumResidualBlocks() const { return static_cast<int>(impl_->residuals().size()); }
int Problem::NumParameters() const {
  int sum = 0;
  for (const auto& block : impl_->parameters()) sum += block->size;
  return sum;
}
int Problem::NumResiduals() const {
  int sum = 0;
  for (const auto& block : impl_->residuals()) sum += block->cost->num_residuals();
  return sum;
}

int Problem::ParameterBlockSize(const double* values) const {
  return impl_->At("ParameterBlockSize", values).size;
}
int Problem::ParameterBlockTangentSize(const double* values) const {
  return impl_->At("ParameterBlockTangentSize", values).tangent_size();
}
bool Problem::HasParameterBlock(const double* values) const {
  return impl_->Find(values) != nullptr;
}

void Problem::GetParameterBlocks(std::vector<double*>* parameter_blocks) const {
  parameter_blocks->clear();
  for (const auto& block : impl_->parameters()) parameter_blocks->push_back(block->values);
}
void Problem::GetResidualBlocks(std::vector<ResidualBlockId>* residual_blocks) const {
  residual_blocks->clear();
  for (const auto& block : impl_->residuals()) residual_blocks->push_back(block.get());
}
void Problem::GetParameterBlocksForResidualBlock(ResidualBlockId residual_block,
                                                 std::vector<double*>* parameter_blocks) const {
  parameter_blocks->clear();
  for (const ParameterBlock* block : residual_block->parameters)
    parameter_blocks->push_back(block->values);
}
const CostFunction* Problem::GetCostFunctionForResidualBlock(ResidualBlockId residual_block) const {
  return residual_block->cost;
}
const LossFunction* Problem::GetLossFunctionForResidualBlock(ResidualBlockId residual_block) const {
  return residual_block->loss;
}
void Problem::GetResidualBlocksForParameterBlock(
    const double* values, std::vector<ResidualBlockId>* residual_blocks) const {
  residual_blocks->clear();
  const ParameterBlock* block = &impl_->At("GetResidualBlocksForParameterBlock", values);
  for (const auto& residual : impl_->residuals())
    if (std::ranges::find(residual->parameters, block) != residual->parameters.end())
      residual_blocks->push_back(residual.get());
}

const Problem::Options& Problem::options() const { return impl_->options(); }

namespace internal {
namespace {

using Jacobian = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Residuals and Jacobian after the square-root correction for a robust loss.
/// Source: Triggs, McLauchlan, Hartley, Fitzgibbon, Bundle Adjustment: A Modern Synthesis, 2000,
/// section 4.3; outliers, where rho'' <= 0, get no second-order term, as in Ceres.
struct Correction {
  Correction(double squared, const double rho[3]) : jacobian(std::sqrt(rho[1])) {
    residual = jacobian;
    if (squared == 0 || rho[2] <= 0) return;
    const double alpha = 1 - std::sqrt(1 + 2 * squared * rho[2] / rho[1]);
    residual = jacobian / (1 - alpha);
    along = alpha / squared;
  }
  void Apply(const Eigen::VectorXd& r, Jacobian& J) const {
    J = jacobian * (J - along * r * (r.transpose() * J)).eval();
  }
  double jacobian, residual, along = 0;
};

struct Evaluated {
  double cost = 0;
  Eigen::VectorXd residuals;
  std::vector<Jacobian> jacobians;  ///< by parameter block, in tangent space; empty if not wanted
};

bool ToTangents(const ParameterBlock& block, Jacobian& J) {
  if (block.manifold == nullptr) return true;
  Jacobian tangent(J.rows(), block.tangent_size());
  const bool defined = block.manifold->RightMultiplyByPlusJacobian(
      block.values, static_cast<int>(J.rows()), J.data(), tangent.data());
  J = std::move(tangent);
  return defined;
}

/// Computes derivatives for the parameter blocks that are true in `wanted`; for none if it is
/// empty.
bool EvaluateAll(const ResidualBlock& block, bool apply_loss, const std::vector<bool>& wanted,
                 Evaluated& out) {
  const int rows = block.cost->num_residuals();
  std::vector<const double*> values;
  std::vector<double*> pointers;
  out.residuals.setConstant(rows, topograd::unwritten());
  out.jacobians.assign(block.parameters.size(), Jacobian());
  for (std::size_t k = 0; k < block.parameters.size(); ++k) {
    values.push_back(block.parameters[k]->values);
    if (!wanted.empty() && wanted[k])
      out.jacobians[k].setConstant(rows, block.parameters[k]->size, topograd::unwritten());
    pointers.push_back(out.jacobians[k].size() == 0 ? nullptr : out.jacobians[k].data());
  }
  if (!block.cost->Evaluate(values.data(), out.residuals.data(),
                            wanted.empty() ? nullptr : pointers.data()))
    return false;
  const auto finite = [](const auto& numbers) { return numbers.allFinite(); };
  if (!finite(out.residuals) || !std::ranges::all_of(out.jacobians, finite)) return false;
  const double squared = out.residuals.squaredNorm();
  out.cost = squared / 2;
  const bool robust = apply_loss && block.loss != nullptr;
  double rho[3] = {squared, 1, 0};
  if (robust) {
    block.loss->Evaluate(squared, rho);
    out.cost = rho[0] / 2;
  }
  const Correction correction(squared, rho);
  for (std::size_t k = 0; k < out.jacobians.size(); ++k) {
    if (pointers[k] == nullptr) continue;
    if (!ToTangents(*block.parameters[k], out.jacobians[k])) return false;
    if (robust) correction.Apply(out.residuals, out.jacobians[k]);
  }
  if (robust) out.residuals *= correction.residual;
  return true;
}

/// One call of Problem::Evaluate.
class Evaluation {
 public:
  Evaluation(const ProblemImpl& problem, const Problem::EvaluateOptions& options)
      : options_(options) {
    if (options.parameter_blocks.empty()) {
      for (const auto& block : problem.parameters()) Append(*block);
    } else {
      for (const double* values : options.parameter_blocks) Append(problem.At("Evaluate", values));
    }
    residuals_ = options.residual_blocks;
    if (residuals_.empty())
      for (const auto& block : problem.residuals()) residuals_.push_back(block.get());
  }

  int columns() const { return columns_; }
  const std::vector<ResidualBlock*>& residuals() const { return residuals_; }

  /// Evaluates a block and, if `derivatives`, its derivatives by variable parameter blocks.
  bool Run(const ResidualBlock& block, bool derivatives, Evaluated& out) const {
    std::vector<bool> wanted;
    for (const ParameterBlock* p : block.parameters)
      if (derivatives) wanted.push_back(!p->constant && columns_of_.count(p) != 0);
    return EvaluateAll(block, options_.apply_loss_function, wanted, out);
  }

  void AddGradient(const ResidualBlock& block, const Evaluated& at,
                   std::vector<double>& gradient) const {
    for (std::size_t k = 0; k < block.parameters.size(); ++k) {
      const Jacobian& J = at.jacobians[k];
      if (J.size() == 0) continue;
      Eigen::Map<Eigen::VectorXd>(gradient.data() + columns_of_.at(block.parameters[k]),
                                  J.cols()) += J.transpose() * at.residuals;
    }
  }

  void AddRows(const ResidualBlock& block, const Evaluated& at, CRSMatrix& matrix) const {
    std::vector<std::pair<int, std::size_t>> order;  // first column, number of the block
    for (std::size_t k = 0; k < block.parameters.size(); ++k)
      if (at.jacobians[k].size() != 0) order.emplace_back(columns_of_.at(block.parameters[k]), k);
    std::sort(order.begin(), order.end());
    for (Eigen::Index row = 0; row < at.residuals.size(); ++row) {
      for (const auto& [first, k] : order) {
        for (Eigen::Index c = 0; c < at.jacobians[k].cols(); ++c) {
          matrix.cols.push_back(first + static_cast<int>(c));
          matrix.values.push_back(at.jacobians[k](row, c));
        }
      }
      matrix.rows.push_back(static_cast<int>(matrix.cols.size()));
    }
  }

 private:
  void Append(const ParameterBlock& block) {
    columns_of_.emplace(&block, columns_);
    columns_ += block.tangent_size();
  }

  const Problem::EvaluateOptions& options_;
  std::vector<ResidualBlock*> residuals_;
  std::unordered_map<const ParameterBlock*, int> columns_of_;
  int columns_ = 0;
};

}  // namespace

bool EvaluateBlock(const ResidualBlock& block, bool apply_loss, double* cost, double* residuals,
                   double** jacobians) {
  std::vector<bool> wanted;
  for (std::size_t k = 0; jacobians != nullptr && k < block.parameters.size(); ++k)
    wanted.push_back(jacobians[k] != nullptr);
  Evaluated at;
  if (!EvaluateAll(block, apply_loss, wanted, at)) return false;
  if (cost != nullptr) *cost = at.cost;
  if (residuals != nullptr) std::copy_n(at.residuals.data(), at.residuals.size(), residuals);
  for (std::size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k]) std::copy_n(at.jacobians[k].data(), at.jacobians[k].size(), jacobians[k]);
  return true;
}

}  // namespace internal

bool Problem::Evaluate(const EvaluateOptions& options, double* cost, std::vector<double>* residuals,
                       std::vector<double>* gradient, CRSMatrix* jacobian) {
  const internal::Evaluation evaluation(*impl_, options);
  const bool derivatives = gradient != nullptr || jacobian != nullptr;
  if (EvaluationCallback* callback = impl_->options().evaluation_callback)
    callback->PrepareForEvaluation(derivatives, true);
  double sum = 0;
  std::vector<double> rows, slope;
  if (gradient != nullptr) slope.assign(static_cast<std::size_t>(evaluation.columns()), 0.0);
  CRSMatrix matrix;
  matrix.rows.push_back(0);
  matrix.num_cols = evaluation.columns();
  internal::Evaluated at;
  for (const internal::ResidualBlock* block : evaluation.residuals()) {
    if (!evaluation.Run(*block, derivatives, at)) return false;
    sum += at.cost;
    rows.insert(rows.end(), at.residuals.data(), at.residuals.data() + at.residuals.size());
    if (gradient != nullptr) evaluation.AddGradient(*block, at, slope);
    if (jacobian != nullptr) evaluation.AddRows(*block, at, matrix);
  }
  matrix.num_rows = static_cast<int>(rows.size());
  if (cost != nullptr) *cost = sum;
  if (residuals != nullptr) residuals->swap(rows);
  if (gradient != nullptr) gradient->swap(slope);
  if (jacobian != nullptr) *jacobian = std::move(matrix);
  return true;
}

bool Problem::EvaluateResidualBlock(ResidualBlockId residual_block_id, bool apply_loss_function,
                                    double* cost, double* residuals, double** jacobians) const {
  if (EvaluationCallback* callback = impl_->options().evaluation_callback)
    callback->PrepareForEvaluation(jacobians != nullptr, true);
  return EvaluateResidualBlockAssumingParametersUnchanged(residual_block_id, apply_loss_function,
                                                          cost, residuals, jacobians);
}

bool Problem::EvaluateResidualBlockAssumingParametersUnchanged(ResidualBlockId residual_block_id,
                                                               bool apply_loss_function,
                                                               double* cost, double* residuals,
                                                               double** jacobians) const {
  return internal::EvaluateBlock(*residual_block_id, apply_loss_function, cost, residuals,
                                 jacobians);
}

}  // namespace ceres
