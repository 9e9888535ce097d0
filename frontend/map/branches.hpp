// Branches of a problem's residuals: moves residuals whose guards fail to the path that holds.
#pragma once

#include "../problem.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// An instance that fails a guard.
struct BranchFailure {
  std::size_t topology = 0;  ///< its number in the problem
  std::size_t instance = 0;
};

/// The interface through which a solver updates the branches of a problem.
///
/// Instances move between topologies; the order of rows, ids, labels and losses stay. Each move
/// changes the structure (Problem::versions). Cost: the first move needs a pass over all residuals;
/// each move processes the nodes of one residual, and runs the callable if its path is new.
class Branches {
 public:
  /// `problem` must outlive this object.
  explicit Branches(Problem& problem) : problem_(problem) {}

  /// True if any residual has branches.
  bool any() const;

  /// Traces failed instances again at x and moves them. An instance that fails for the second time
  /// becomes one expression with select() of all paths that it took.
  ///
  ///   x         problem.parameter_count() numbers
  ///   narrow    compares numbers as float
  ///   describe  names a failure for a message
  ///
  /// Throws Error{StaleBranch} if there is no callable, if a branch outside of it failed, or if its
  /// branches cannot be told apart; what the callable throws; Error{Shape} if it gives another
  /// number of rows. undo() reverts the moves made before an error.
  void retake(std::span<const BranchFailure> failures, std::span<const double> x, bool narrow,
              const std::function<std::string(const BranchFailure&)>& describe);

  /// Reverts the moves since the last keep(), except those that became a select(), which hold on
  /// both sides. Returns the number of reverted moves.
  std::size_t undo();
  void keep() { moved_.clear(); }

 private:
  struct Moved;
  Problem& problem_;
  std::vector<std::shared_ptr<const Moved>> moved_;
};

}  // namespace topograd
