// Problem: cost functions over the user's parameter blocks, with Ceres' names.
#pragma once

#include "../cost/cost_function.hpp"
#include "../cost/loss_function.hpp"
#include "../manifold/local_parameterization.hpp"
#include "../manifold/manifold.hpp"
#include "../types/solver_types.hpp"
#include "../types/types.hpp"

#include <array>
#include <concepts>
#include <memory>
#include <vector>

namespace ceres {

namespace internal {
struct ResidualBlock;
struct ProblemAccess;
class ProblemImpl;
}  // namespace internal

/// Identifies a residual block until it is removed.
using ResidualBlockId = internal::ResidualBlock*;

/// Shared threads and devices in Ceres; empty here.
class Context {
 public:
  static Context* Create() { return new Context; }
  virtual ~Context() = default;
};

/// A nonlinear least squares problem: ½ Σ ρᵢ(‖fᵢ(blocks)‖²) over the user's parameter blocks.
///
/// A parameter block is identified by its address. The memory belongs to the user and is written at
/// the end of a solve. Callers' mistakes throw topograd::Error where Ceres ends the program.
class Problem {
 public:
  struct Options {
    Ownership cost_function_ownership = TAKE_OWNERSHIP;
    Ownership loss_function_ownership = TAKE_OWNERSHIP;
    Ownership manifold_ownership = TAKE_OWNERSHIP;
    Ownership local_parameterization_ownership = TAKE_OWNERSHIP;
    /// No effect: removing a residual block takes constant time; removing a parameter block is
    /// linear in the number of residual blocks.
    bool enable_fast_removal = false;
    bool disable_all_safety_checks = false;  ///< skips the check for overlapping parameter blocks
    Context* context = nullptr;              ///< no effect
    EvaluationCallback* evaluation_callback = nullptr;  ///< not owned
  };

  Problem();
  explicit Problem(const Options& options);
  ~Problem();
  Problem(Problem&&) noexcept;
  Problem& operator=(Problem&&) noexcept;

  /// Adds a residual block over one or more parameter blocks, which are added if they are new.
  ///
  ///   loss_function  nullptr for the plain square
  ///
  /// Throws Error{Shape} if the number or sizes of the parameter blocks differ from the cost
  /// function's, Error{InvalidArgument} for a null pointer or a block that is listed twice. The
  /// problem is unchanged after an error, and arguments that it owns are deleted unless another
  /// block uses them.
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

  /// Throws Error{Shape} if the block exists with another size.
  void AddParameterBlock(double* values, int size);
  void AddParameterBlock(double* values, int size, Manifold* manifold);
  template <std::derived_from<LocalParameterization> Parameterization>
  void AddParameterBlock(double* values, int size, Parameterization* parameterization) {
    AddParameterBlock(values, size);
    SetParameterization(values, parameterization);
  }
  /// Removes a parameter block and every residual block that reads it. Cost: linear in the number
  /// of residual blocks.
  void RemoveParameterBlock(const double* values);
  void RemoveResidualBlock(ResidualBlockId residual_block);

  // These throw Error{InvalidArgument} for an unknown block.
  void SetParameterBlockConstant(const double* values);
  void SetParameterBlockVariable(double* values);
  bool IsParameterBlockConstant(const double* values) const;
  /// nullptr removes the manifold. Throws Error{Shape} if the size is wrong; the problem owns the
  /// manifold nevertheless.
  void SetManifold(double* values, Manifold* manifold);
  const Manifold* GetManifold(const double* values) const;
  bool HasManifold(const double* values) const;
  /// As in Ceres 2.1: gives the block a manifold that is equivalent to the parameterization.
  void SetParameterization(double* values, LocalParameterization* parameterization);
  /// nullptr and false for a block whose manifold does not come from a parameterization.
  const LocalParameterization* GetParameterization(const double* values) const;
  bool HasParameterization(const double* values) const;
  void SetParameterLowerBound(double* values, int index, double lower_bound);
  void SetParameterUpperBound(double* values, int index, double upper_bound);
  /// -DBL_MAX if there is no bound.
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
  /// Cost: linear in the number of residual blocks.
  void GetResidualBlocksForParameterBlock(const double* values,
                                          std::vector<ResidualBlockId>* residual_blocks) const;

  struct EvaluateOptions {
    std::vector<double*> parameter_blocks;         ///< empty: all, in the order of adding
    std::vector<ResidualBlockId> residual_blocks;  ///< empty: all, in the order of adding
    bool apply_loss_function = true;
    int num_threads = 1;  ///< no effect: cost functions run on the calling thread
  };

  /// Evaluates at the user's values, by CostFunction::Evaluate on the CPU; outputs may be nullptr.
  ///
  /// Gradient and Jacobian have ParameterBlockTangentSize() columns per block, zeros for constant
  /// blocks. Returns false if a cost function or a manifold does.
  bool Evaluate(const EvaluateOptions& options, double* cost, std::vector<double>* residuals,
                std::vector<double>* gradient, CRSMatrix* jacobian);
  /// Evaluates one block; `jacobians` as for CostFunction::Evaluate, with tangent sizes.
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
