// ceres::Problem: the calls that users make.
#include "problem.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "../../../ir/error.hpp"
#include "problem_impl.hpp"

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
  return impl_->At("IsParameterBlockConstant", values).constant;
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
  out.residuals.resize(rows);
  out.jacobians.assign(block.parameters.size(), Jacobian());
  for (std::size_t k = 0; k < block.parameters.size(); ++k) {
    values.push_back(block.parameters[k]->values);
    if (!wanted.empty() && wanted[k]) out.jacobians[k].resize(rows, block.parameters[k]->size);
    pointers.push_back(out.jacobians[k].size() == 0 ? nullptr : out.jacobians[k].data());
  }
  if (!block.cost->Evaluate(values.data(), out.residuals.data(),
                            wanted.empty() ? nullptr : pointers.data()))
    return false;
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
