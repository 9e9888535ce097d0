// Conversion of a ceres::Problem to a topograd::Problem.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/options.hpp"
#include "../types/solver_types.hpp"
#include "problem_impl.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ceres::internal {

class LoweredProblem;

/// Calls an evaluation callback at each point, after the point was written to the user's memory.
class Preparation {
 public:
  Preparation(const LoweredProblem& problem, EvaluationCallback& callback)
      : problem_(problem), callback_(callback) {}
  void Run(std::span<const double> x, bool derivatives);

 private:
  const LoweredProblem& problem_;
  EvaluationCallback& callback_;
  std::vector<double> last_;
};

/// Parameter blocks of one size form one array, in the order of adding; blocks that no residual
/// reads are omitted. Functors are traced; cost functions that cannot be traced are evaluated by
/// CostFunction::Evaluate on the CPU. Refers to functions and manifolds of the ceres::Problem.
class LoweredProblem {
 public:
  /// Throws Error{InvalidArgument} if parameter blocks overlap. Cost: one trace per residual block.
  explicit LoweredProblem(const ProblemImpl& problem);

  topograd::Problem& problem() { return problem_; }
  /// Copies the user's values to the arrays, or the arrays to the user's values.
  void Read();
  void Write() const;
  /// Sets the user's values from x, in the order of the topograd::Problem.
  void Write(std::span<const double> x) const;

  /// The groups of an ordering, and the number of variable blocks of each, ascending. Throws
  /// Error{InvalidArgument} with Ceres' message if a block is in no group.
  std::vector<topograd::OrderedParameters> Ordered(const ParameterBlockOrdering& ordering,
                                                   std::vector<int>& sizes) const;

  /// Number of parameter blocks that are variable and read by a residual.
  std::size_t variable_blocks() const { return variable_blocks_; }
  /// The reasons why residual blocks run on the CPU, with the number of blocks for each.
  std::vector<std::string> host_notes() const;

 private:
  struct BlockArray {
    std::vector<double> values;
    std::vector<const ParameterBlock*> blocks;
    topograd::Parameters handle;
  };
  struct Position {
    const BlockArray* array = nullptr;
    std::uint32_t block = 0;
  };

  void Gather(const ProblemImpl& problem);
  void Constrain(const BlockArray& array, std::size_t block);
  void Add(const ResidualBlock& residual);
  bool MayRunAsCode(const ResidualBlock& residual) const;
  void Trace(const ResidualBlock& residual, const topograd::Loss& loss);
  std::vector<topograd::Value> Rows(const ResidualBlock& residual);
  void AddHost(const ResidualBlock& residual, const std::optional<topograd::Loss>& loss);
  const std::optional<topograd::Loss>& LossOf(const ResidualBlock& residual);

  topograd::Problem problem_;
  std::map<int, BlockArray> arrays_;  ///< by size of block
  std::vector<Position> positions_;   ///< by ParameterBlock::position
  std::size_t variable_blocks_ = 0;
  std::size_t residual_blocks_ = 0;
  std::unique_ptr<Preparation> preparation_;  ///< null without evaluation callback
  std::map<std::string, std::size_t> host_reasons_;
  std::unordered_map<const LossFunction*, std::optional<topograd::Loss>> losses_;
  std::unordered_map<const Manifold*, topograd::Manifold> manifolds_;
  // Reused for all residuals.
  std::vector<topograd::Value> leaves_;
  std::vector<const topograd::Value*> pointers_;
};

}  // namespace ceres::internal
