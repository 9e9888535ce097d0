// A self-contained piece of tape: all operands of its nodes are part of it.
#pragma once

#include "tape.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::detail {

/// A branch of a residual: the condition, and whether it was true.
struct RawGuard {
  std::uint32_t condition = 0;  ///< position in the tape's nodes
  bool expected = false;
  friend bool operator==(const RawGuard&, const RawGuard&) = default;
};

/// Self-contained nodes, with the residual rows among them and the branches taken.
struct RawTape {
  std::span<const TapeNode> nodes;
  std::span<const std::uint32_t> rows;  ///< positions in `nodes`
  std::span<const RawGuard> guards = {};
};

/// Marks a node of this thread's tape as a value that residuals share. A node keeps its mark while
/// the tape has it.
void mark_shared(std::uint64_t bits);
/// The nodes with marks, ascending.
std::span<const std::uint64_t> shared_nodes();

/// The nodes that rows need, from anywhere on the tape, stored next to each other in their order.
class CompactTape {
 public:
  /// Replaces the content. `rows` are nodes of this thread's tape. The branches on which these
  /// nodes depend are included, with the nodes that their conditions need. Cost: linear in the open
  /// segment, and n log n in the older nodes that the rows need, however far apart they are.
  void assign(std::span<const std::uint64_t> rows);

  RawTape view() const { return {nodes_, rows_, guards_}; }
  /// The branches, as `guards` of the view.
  std::span<const BranchMark> branches() const { return branches_; }
  /// Positions of the nodes on the thread's tape, ascending.
  std::span<const std::uint64_t> ids() const { return ids_; }

 private:
  std::uint32_t position(std::uint64_t id) const;
  void collect(std::span<const std::uint64_t> rows);
  void collect_open(std::span<const std::uint64_t> rows);

  std::vector<std::uint64_t> ids_, open_;
  std::size_t older_ = 0;             // ids from before the open segment
  std::uint64_t open_begin_ = 0;      // first node of the open segment
  std::vector<std::uint32_t> place_;  // by node of the open segment: its position
  std::vector<TapeNode> nodes_;
  std::vector<std::uint32_t> rows_;
  std::vector<BranchMark> branches_;
  std::vector<RawGuard> guards_;
};

}  // namespace topograd::detail
