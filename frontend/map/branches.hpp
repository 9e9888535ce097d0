// Branches of a problem's residuals: moving those that hold no longer to the path that does.
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

/// What a solver tells a problem about branches.
///
/// Instances move between topologies; the order of rows, ids, labels and losses stay. Each move is
/// a change of structure (Problem::versions). The first move costs a pass over all residuals, each
/// one the nodes of a residual, and a run of the callable where its path was not seen before.
class Branches {
 public:
  /// `problem` outlives it.
  explicit Branches(Problem& problem) : problem_(problem) {}

  /// Whether a residual has branches at all.
  bool any() const;

  /// Traces failed instances again at x and moves them. One that fails for the second time becomes
  /// all paths that it took, in one expression with select().
  ///
  ///   x         problem.parameter_count() numbers
  ///   narrow    numbers are compared as float does
  ///   describe  names a failure for a message
  ///
  /// Throws Error{StaleBranch} if there is no callable, a branch outside of it is to blame, or its
  /// branches cannot be told apart; what the callable throws; Error{Shape} if it gives another
  /// number of rows. undo() brings back what was moved before that.
  void retake(std::span<const BranchFailure> failures, std::span<const double> x, bool narrow,
              const std::function<std::string(const BranchFailure&)>& describe);

  /// Moves back what was moved since the last keep(), but for those that became a select(), which
  /// hold on both sides. Returns how many were.
  std::size_t undo();
  void keep() { moved_.clear(); }

 private:
  struct Moved;
  Problem& problem_;
  std::vector<std::shared_ptr<const Moved>> moved_;
};

}  // namespace topograd
