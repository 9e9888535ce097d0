// Problem: cost functions over the user's parameter blocks, with Ceres' names.
#pragma once

#include "../cost/cost_function.hpp"
#include "../cost/loss_function.hpp"
#include "../manifold/local_parameterization.hpp"
#include "../manifold/manifold.hpp"
#include "../types/crs_matrix.hpp"
#include "../types/iteration_callback.hpp"
#include "../types/types.hpp"

#include <array>
#include <concepts>
#include <memory>
#include <vector>

namespace ceres {

namespace internal {
struct ParameterBlock;
struct ResidualBlock;
struct ProblemAccess;
class ProblemImpl;
}  // namespace internal

/// Names a residual block until it is removed.
using ResidualBlockId = internal::ResidualBlock*;

/// What threads and devices are shared by; there is nothing in it.
class Context {
 public:
  static Context* Create() { return new Context; }
  virtual ~Context() = default;
};

/// A nonlinear least squares problem: ½ Σ ρᵢ(‖fᵢ(blocks)‖²) over the user's parameter blocks.
///
/// A parameter block is named by its address; the memory is the user's and is written when a solve
/// ends. Callers' mistakes throw topograd::Error where Ceres ends the program.
class Problem {
 public:
  struct Options {
    Ownership cost_function_ownership = TAKE_OWNERSHIP;
    Ownership loss_function_ownership = TAKE_OWNERSHIP;
    Ownership manifold_ownership = TAKE_OWNERSHIP;
    Ownership local_parameterization_ownership = TAKE_OWNERSHIP;
    /// Without effect: removing a residual block always takes constant time, removing a parameter
    /// block time linear in the residual blocks.
    bool enable_fast_removal = false;
    bool disable_all_safety_checks = false;  ///< no look for parameter blocks that overlap
    Context* context = nullptr;              ///< without effect
    EvaluationCallback* evaluation_callback = nullptr;  ///< not owned
  };

  Problem();
  explicit Problem(const Options& options);
  ~Problem();
  Problem(Problem&&) noexcept;
  Problem& operator=(Problem&&) noexcept;

  /// Adds a residual block over one parameter block or more, which are added if they are new.
  ///
  ///   loss_function  nullptr for the plain square
  ///
  /// Throws Error{Shape} if number or sizes of the parameter blocks are not the cost function's,
  /// Error{InvalidArgument} for a null pointer or a block that is named twice; the problem is
  /// unchanged then, and what it owns of the arguments is deleted unless another block uses it.
  template <typename... Ts>
  ResidualBlockId AddResidualBlock(CostFunction* cost_function, LossFunction* loss_function,
                                   double* x0, Ts*... xs) {
    const std::array<double*, sizeof...(Ts) + 1> blocks{{x0, xs...}};
    return AddResidualBlock(cost_function, loss_function, blocks.data(),
                            static_cast<int>(blocks.size()));
  }
  ResidualBlockId AddResidualBlock(CostFunction* cost_function, LossFunction* loss_function,
                                   const std::vector<double*>& parameter_blocks);
  ResidualBlockId AddResidualBlock(CostFunction* cost_function, LossFunction* loss_function,
                                   double* const* parameter_blocks, int num_parameter_blocks);

  /// Throws Error{Shape} if the block is there with another size.
  void AddParameterBlock(double* values, int size);
  void AddParameterBlock(double* values, int size, Manifold* manifold);
  template <std::derived_from<LocalParameterization> Parameterization>
  void AddParameterBlock(double* values, int size, Parameterization* parameterization) {
    AddParameterBlock(values, size);
    SetParameterization(values, parameterization);
  }
  /// Removes a parameter block and every residual block that reads it. Cost: linear in the residual
  /// blocks.
  void RemoveParameterBlock(const double* values);
  void RemoveResidualBlock(ResidualBlockId residual_block);

  // These throw Error{InvalidArgument} for a block that is not there.
  void SetParameterBlockConstant(const double* values);
  void SetParameterBlockVariable(double* values);
  bool IsParameterBlockConstant(const double* values) const;
  /// nullptr takes the manifold away. Throws Error{Shape} if it is not the block's size; the
  /// problem owns it nevertheless.
  void SetManifold(double* values, Manifold* manifold);
  const Manifold* GetManifold(const double* values) const;
  bool HasManifold(const double* values) const;
  /// As in Ceres 2.1: the block gets a manifold that moves as the parameterization does.
  void SetParameterization(double* values, LocalParameterization* parameterization);
  /// nullptr and false for a block whose manifold is not a parameterization's.
  const LocalParameterization* GetParameterization(const double* values) const;
  bool HasParameterization(const double* values) const;
  void SetParameterLowerBound(double* values, int index, double lower_bound);
  void SetParameterUpperBound(double* values, int index, double upper_bound);
  /// -DBL_MAX where there is no bound.
  double GetParameterLowerBound(const double* values, int index) const;
  double GetParameterUpperBound(const double* values, int index) const;

  int NumParameterBlocks() const;
  int NumParameters() const;
  int NumResidualBlocks() const;
  int NumResiduals() const;
  int ParameterBlockSize(const double* values) const;
  int ParameterBlockTangentSize(const double* values) const;
  int ParameterBlockLocalSize(const double* values) const {
    return ParameterBlockTangentSize(values);
  }
  bool HasParameterBlock(const double* values) const;
  void GetParameterBlocks(std::vector<double*>* parameter_blocks) const;
  void GetResidualBlocks(std::vector<ResidualBlockId>* residual_blocks) const;
  void GetParameterBlocksForResidualBlock(ResidualBlockId residual_block,
                                          std::vector<double*>* parameter_blocks) const;
  const CostFunction* GetCostFunctionForResidualBlock(ResidualBlockId residual_block) const;
  const LossFunction* GetLossFunctionForResidualBlock(ResidualBlockId residual_block) const;
  /// Cost: linear in the residual blocks.
  void GetResidualBlocksForParameterBlock(const double* values,
                                          std::vector<ResidualBlockId>* residual_blocks) const;

  struct EvaluateOptions {
    std::vector<double*> parameter_blocks;         ///< empty: all, in the order of adding
    std::vector<ResidualBlockId> residual_blocks;  ///< empty: all, in the order of adding
    bool apply_loss_function = true;
    int num_threads = 1;  ///< without effect: cost functions run on the calling thread
  };

  /// Evaluates at the user's values, by CostFunction::Evaluate, on the CPU; outputs may be nullptr.
  ///
  /// Gradient and Jacobian have ParameterBlockTangentSize() columns a block, zeros for constant
  /// blocks. False if a cost function or a manifold answers false.
  bool Evaluate(const EvaluateOptions& options, double* cost, std::vector<double>* residuals,
                std::vector<double>* gradient, CRSMatrix* jacobian);
  /// One block; `jacobians` as for CostFunction::Evaluate, with tangent sizes.
  bool EvaluateResidualBlock(ResidualBlockId residual_block_id, bool apply_loss_function,
                             double* cost, double* residuals, double** jacobians) const;
  bool EvaluateResidualBlockAssumingParametersUnchanged(ResidualBlockId residual_block_id,
                                                        bool apply_loss_function, double* cost,
                                                        double* residuals,
                                                        double** jacobians) const;

  const Options& options() const;

 private:
  friend struct internal::ProblemAccess;
  std::unique_ptr<internal::ProblemImpl> impl_;
};

}  // namespace ceres
