// What a ceres::Problem holds: parameter blocks by address, residual blocks, owned functions.
#pragma once

#include "problem.hpp"

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
  const LocalParameterization* parameterization = nullptr;  ///< that the manifold stands for
  std::vector<double> lower, upper;                         ///< empty: no bound
  std::size_t position = 0;                                 ///< in ProblemImpl::parameters()

  int tangent_size() const { return manifold == nullptr ? size : manifold->TangentSize(); }
};

struct ResidualBlock {
  CostFunction* cost = nullptr;
  LossFunction* loss = nullptr;
  const Traceable* traceable = nullptr;  ///< the cost function as one, or nullptr
  std::vector<ParameterBlock*> parameters;
  std::size_t position = 0;  ///< in ProblemImpl::residuals()
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
  /// The manifold that stands for a parameterization, the same one each time; nullptr for nullptr.
  ParameterizationManifold* Adapt(LocalParameterization* parameterization);
  /// From now on the manifold is the problem's to delete, if problems own manifolds.
  void Own(Manifold* manifold);
  void Remove(ResidualBlock* residual);
  void RemoveParameters(const double* values);

  /// nullptr if it is not there.
  ParameterBlock* Find(const double* values) const;
  /// Throws Error{InvalidArgument} that names the call.
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
  // How many residual blocks use a function that is owned.
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

/// Cost, residuals and Jacobian of one residual block at the user's values, as
/// Problem::EvaluateResidualBlock gives them.
bool EvaluateBlock(const ResidualBlock& block, bool apply_loss, double* cost, double* residuals,
                   double** jacobians);

}  // namespace ceres::internal
