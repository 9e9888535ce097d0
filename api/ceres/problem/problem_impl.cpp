// Adds, finds, removes and owns the blocks of a ceres::Problem.
#include "problem_impl.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>

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
