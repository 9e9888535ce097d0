// One way through a callable: what it computed and which branches it took; and several in one.
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
  std::uint64_t at = 0;  ///< nodes that the callable had made by then
};

/// What a run of a callable left: nodes that need no others, with symbolic leaves.
struct TracedPath {
  std::vector<TapeNode> nodes;
  std::vector<std::uint64_t> origins;  ///< by node: which node of the run, or kCaptured + tape node
  std::vector<std::uint32_t> rows;
  std::vector<PathBranch> branches;  ///< the first `outer` were taken before the callable ran
  std::size_t outer = 0;
  std::vector<AddressForm> forms;  ///< by the number that a symbolic leaf holds

  static constexpr std::uint64_t kCaptured = std::uint64_t{1} << 63;

  std::span<const PathBranch> own_branches() const { return std::span(branches).subspan(outer); }
};

/// A callable that gives the rows of a residual.
using RowsOf = std::function<void(std::vector<Value>&)>;

/// Runs a callable under the scopes of the caller. Throws what it throws, and Error{Shape},
/// Error{StaleValue} as add_residual.
TracedPath trace_path(const RowsOf& call, const Caller& caller);

/// The conditions of a path's first branches, to be asked of many elements. Any thread may ask.
class PathConditions {
 public:
  /// The path outlives this.
  PathConditions(const TracedPath& path, std::size_t count);

  /// Whether all go the way they did, with these numbers; false if one of them has no number.
  /// Cost: linear in the nodes that the conditions need.
  bool hold(const ProblemState& state, const Point& point, const ElementNumbers* element) const;

 private:
  const TracedPath& path_;
  std::size_t count_;
  std::vector<std::uint32_t> nodes_;
};

/// Whether all branches of a path go the way they did, with these numbers; false if one of them has
/// no number.
bool holds(const TracedPath& path, const ProblemState& state, const Point& point,
           const ElementNumbers* element);
/// Whether those do that were taken before the callable ran.
bool outer_holds(const TracedPath& path, const ProblemState& state, const Point& point,
                 const ElementNumbers* element);

/// Both take the same branches.
bool same_branches(const TracedPath& a, const TracedPath& b);

/// One expression for all of these different paths through one callable: where two of them part,
/// select() by the condition at which they do. Branches that all known paths take one way stay
/// branches, under the conditions that lead to them.
///
/// Throws Error{Shape} if paths have different numbers of rows, Error{InvalidArgument} if the
/// callable did not branch at the same conditions in each.
TracedPath combine(std::span<const TracedPath* const> paths, const Caller& caller);

/// A tape with the leaves of one element in place of symbolic ones.
struct ConcreteTape {
  std::vector<TapeNode> nodes;
  std::vector<std::uint32_t> rows;
  std::vector<RawGuard> guards;
  RawTape view() const { return {nodes, rows, guards}; }
};
ConcreteTape concrete(const TracedPath& path, const ElementNumbers& element, std::uint32_t problem);

}  // namespace topograd::detail
