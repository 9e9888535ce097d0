// A ceres::Problem as a topograd::Problem.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/options.hpp"
#include "../types/ordered_groups.hpp"
#include "problem_impl.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ceres::internal {

class LoweredProblem;

/// Tells an evaluation callback of each point, after it has been written to the user's memory.
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

/// Parameter blocks of one size lie in one array, in the order of adding; blocks that no residual
/// reads are left out. Functors are traced; what cannot be is evaluated by CostFunction::Evaluate
/// on the CPU. Refers to functions and manifolds of the ceres::Problem.
class LoweredProblem {
 public:
  /// Throws Error{InvalidArgument} if parameter blocks overlap. Cost: a trace a residual block.
  explicit LoweredProblem(const ProblemImpl& problem);

  topograd::Problem& problem() { return problem_; }
  /// Copies the user's values into the arrays, or the arrays back.
  void Read();
  void Write() const;
  /// The user's values from x, as the topograd::Problem orders it.
  void Write(std::span<const double> x) const;

  /// The groups of an ordering, and how many variable blocks are in each of them, ascending. Throws
  /// Error{InvalidArgument}, in Ceres' words, if one is in none.
  std::vector<topograd::OrderedParameters> Ordered(const ParameterBlockOrdering& ordering,
                                                   std::vector<int>& sizes) const;

  /// Parameter blocks that a residual reads and that may move.
  std::size_t variable_blocks() const { return variable_blocks_; }
  /// Why residual blocks run on the CPU, and how many for each reason.
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
  void Trace(const ResidualBlock& residual, const topograd::Loss& loss);
  std::vector<topograd::Value> Rows(const ResidualBlock& residual);
  void AddHost(const ResidualBlock& residual, const std::optional<topograd::Loss>& loss);
  const std::optional<topograd::Loss>& LossOf(const ResidualBlock& residual);

  topograd::Problem problem_;
  std::map<int, BlockArray> arrays_;  ///< by size of block
  std::vector<Position> positions_;   ///< by ParameterBlock::position
  std::size_t variable_blocks_ = 0;
  std::unique_ptr<Preparation> preparation_;  ///< null without an evaluation callback
  std::map<std::string, std::size_t> host_reasons_;
  std::unordered_map<const LossFunction*, std::optional<topograd::Loss>> losses_;
  std::unordered_map<const Manifold*, topograd::Manifold> manifolds_;
  // Reused from residual to residual.
  std::vector<topograd::Value> leaves_;
  std::vector<const topograd::Value*> pointers_;
};

}  // namespace ceres::internal
