// The state of a ceres::Problem: parameter blocks by address, residual blocks, owned functions.
#pragma once

#include "problem.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ceres::internal {

struct ParameterBlock {
  double* values = nullptr;
  int size = 0;
  bool constant = false;
  Manifold* manifold = nullptr;
  const LocalParameterization* parameterization = nullptr;  ///< original of the manifold
  std::vector<double> lower, upper;                         ///< empty: no bound
  std::size_t position = 0;                                 ///< index in ProblemImpl::parameters()

  int tangent_size() const { return manifold == nullptr ? size : manifold->TangentSize(); }
  bool variable() const { return !constant && tangent_size() > 0; }
};

struct ResidualBlock {
  CostFunction* cost = nullptr;
  LossFunction* loss = nullptr;
  const Traceable* traceable = nullptr;  ///< the cost function, if traceable, or nullptr
  std::vector<ParameterBlock*> parameters;
  std::size_t position = 0;  ///< index in ProblemImpl::residuals()

  /// False if Solve cannot change its cost.
  bool variable() const { return std::ranges::any_of(parameters, &ParameterBlock::variable); }
};

class ProblemImpl {
 public:
  explicit ProblemImpl(const Problem::Options& options) : options_(options) {}
  ~ProblemImpl();
  ProblemImpl(const ProblemImpl&) = delete;
  ProblemImpl& operator=(const ProblemImpl&) = delete;

  ResidualBlock* Add(CostFunction* cost, LossFunction* loss, std::span<double* const> blocks);
  ParameterBlock& AddParameters(double* values, int size);
  void SetManifold(ParameterBlock& block, Manifold* manifold);
  /// The manifold made from a parameterization, the same one each time; nullptr for nullptr.
  ParameterizationManifold* Adapt(LocalParameterization* parameterization);
  /// Takes ownership of the manifold, if problems own manifolds.
  void Own(Manifold* manifold);
  void Remove(ResidualBlock* residual);
  void RemoveParameters(const double* values);

  /// nullptr if the block is unknown.
  ParameterBlock* Find(const double* values) const;
  /// Throws Error{InvalidArgument} that names the call if the block is unknown.
  ParameterBlock& At(const char* call, const double* values) const;

  const std::vector<std::unique_ptr<ParameterBlock>>& parameters() const { return parameters_; }
  const std::vector<std::unique_ptr<ResidualBlock>>& residuals() const { return residuals_; }
  const Problem::Options& options() const { return options_; }

 private:
  ResidualBlock* Append(CostFunction* cost, LossFunction* loss, std::span<double* const> blocks);
  void CheckBlocks(const CostFunction& cost, std::span<double* const> blocks) const;
  void Release(ResidualBlock& residual);

  Problem::Options options_;
  std::vector<std::unique_ptr<ParameterBlock>> parameters_;
  std::vector<std::unique_ptr<ResidualBlock>> residuals_;
  std::unordered_map<const double*, ParameterBlock*> by_address_;
  // Number of residual blocks that use an owned function.
  std::unordered_map<CostFunction*, std::uint32_t> cost_users_;
  std::unordered_map<LossFunction*, std::uint32_t> loss_users_;
  std::vector<Manifold*> manifolds_;  ///< owned; may repeat
  std::unordered_map<const LocalParameterization*, std::unique_ptr<ParameterizationManifold>>
      parameterizations_;
};

struct ProblemAccess {
  static ProblemImpl& impl(Problem& problem) { return *problem.impl_; }
  static const ProblemImpl& impl(const Problem& problem) { return *problem.impl_; }
};

/// Computes cost, residuals and Jacobian of one residual block at the user's values, for
/// Problem::EvaluateResidualBlock.
bool EvaluateBlock(const ResidualBlock& block, bool apply_loss, double* cost, double* residuals,
                   double** jacobians);

}  // namespace ceres::internal
