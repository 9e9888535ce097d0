// Paths through a callable, with their results and branches; several paths as one expression.
#pragma once

#include "../value/raw_tape.hpp"
#include "../value/value.hpp"
#include "branch.hpp"
#include "extract.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd::detail {

/// A branch of a path.
struct PathBranch {
  std::uint32_t condition = 0;  ///< position in the path's nodes
  bool taken = false;
  std::uint64_t at = 0;  ///< number of nodes that the callable had made by then
};

/// The result of a run of a callable: self-contained nodes, with symbolic leaves.
struct TracedPath {
  std::vector<TapeNode> nodes;
  std::vector<std::uint64_t> origins;  ///< for each node: node of the run, or kCaptured + tape node
  std::vector<std::uint32_t> rows;
  std::vector<PathBranch> branches;  ///< the first `outer` were taken before the callable ran
  std::size_t outer = 0;
  std::vector<AddressForm> forms;  ///< by the number that a symbolic leaf holds

  static constexpr std::uint64_t kCaptured = std::uint64_t{1} << 63;

  std::span<const PathBranch> own_branches() const { return std::span(branches).subspan(outer); }
};

/// A callable that appends the rows of a residual.
using RowsOf = std::function<void(std::vector<Value>&)>;

/// Runs a callable within the caller's scopes. Throws what it throws, and Error{Shape} and
/// Error{StaleValue} as add_residual does.
TracedPath trace_path(const RowsOf& call, const Caller& caller);

/// The conditions of a path's first branches, evaluated for many elements. Any thread may call.
class PathConditions {
 public:
  /// `path` must outlive this object.
  PathConditions(const TracedPath& path, std::size_t count);

  /// True if all conditions have their recorded results with these numbers; false if one has no
  /// number. Cost: linear in the nodes that the conditions need.
  bool hold(const ProblemState& state, const Point& point, const ElementNumbers* element) const;

 private:
  const TracedPath& path_;
  std::size_t count_;
  std::vector<std::uint32_t> nodes_;
};

/// True if all branches of a path have their recorded results with these numbers; false if one has
/// no number.
bool holds(const TracedPath& path, const ProblemState& state, const Point& point,
           const ElementNumbers* element);
/// The same for the branches that were taken before the callable ran.
bool outer_holds(const TracedPath& path, const ProblemState& state, const Point& point,
                 const ElementNumbers* element);

/// True if both take the same branches.
bool same_branches(const TracedPath& a, const TracedPath& b);

/// Combines different paths through one callable into one expression: where two of them part, it
/// uses select() with the condition at which they do. A branch that all known paths take in one
/// direction stays a branch, under the conditions that lead to it.
///
/// Throws Error{Shape} if paths have different numbers of rows, Error{InvalidArgument} if the
/// callable did not branch at the same conditions in each path.
TracedPath combine(std::span<const TracedPath* const> paths, const Caller& caller);

/// A tape with the leaves of one element instead of symbolic ones.
struct ConcreteTape {
  std::vector<TapeNode> nodes;
  std::vector<std::uint32_t> rows;
  std::vector<RawGuard> guards;
  RawTape view() const { return {nodes, rows, guards}; }
};
ConcreteTape concrete(const TracedPath& path, const ElementNumbers& element, std::uint32_t problem);

}  // namespace topograd::detail
