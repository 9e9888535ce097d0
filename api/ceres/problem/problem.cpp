// ceres::Problem: the calls that users make.
#include "problem.hpp"

#include "../../../ir/error.hpp"
#include "problem_impl.hpp"

#include <algorithm>
#include <limits>
#include <string>

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

}  // namespace ceres
