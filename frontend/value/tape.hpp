// The tape that expressions are traced onto: one per thread; an append is a few stores.
#pragma once

#include "../../ir/language.hpp"

#include "../../ir/op.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::detail {

/// One traced node. 16 bytes of one element type, so that a store to the tape never looks as if it
/// changed the tape's own counters.
///
///   head      the op, and flags above it
///   a, b, c   ops: distance back to each operand, 0 where there is none
///             parameter, uniform: index, serial of the problem, 0
///             data, literal: 0, low and high bits of the number
///             data read from a Data array: entry, serial of the problem, 0
///             symbolic parameter or data: address form, serial of the problem, serial of the map
struct alignas(16) TapeNode {
  std::uint32_t head, a, b, c;

  ir::Op op() const { return static_cast<ir::Op>(head & 0xffu); }
};
static_assert(sizeof(TapeNode) == 16);

/// Writes a node in one store: what reads it next reads it whole (RawShape::same_structure), and a
/// load waits until all of the stores that it takes parts from have left the processor's queue.
inline void put(TapeNode& at, std::uint32_t head, std::uint32_t a, std::uint32_t b,
                std::uint32_t c) {
  using Whole [[gnu::vector_size(16)]] = std::uint32_t;
  *reinterpret_cast<Whole*>(&at) = Whole{head, a, b, c};
}

/// The data leaf was read from a Data array, so that its number can be set later.
inline constexpr std::uint32_t kBound = 1u << 8;
/// The leaf stands for a column of a map and has no number of its own.
inline constexpr std::uint32_t kSymbolic = 1u << 9;

/// The parameter is a variable of the eager mode; `a` is its number among the thread's variables.
inline constexpr std::uint32_t kEager = 1u << 10;

/// The node reads, or depends on, a problem that is no more.
inline constexpr std::uint32_t kGone = 1u << 11;

constexpr std::uint32_t head(ir::Op op, std::uint32_t flags = 0) {
  return static_cast<std::uint32_t>(op) | flags;
}

/// A branch that was taken while an expression was built.
struct BranchMark {
  std::uint64_t condition = 0;  ///< its node
  std::uint64_t at = 0;         ///< size of the tape when it was taken
  bool taken = false;           ///< the condition was true
};

/// Nodes of the expressions that this thread is building.
///
/// Handles are counted: every append makes one, the balances count copies up and destructions down.
/// Neighbouring nodes have balances of their own, of which the sum is meant: with one for all, the
/// handles of an expression, which end one after the other, wait for each other's stores.
///
/// The nodes from `mark` on are the open segment; they are recycled at the first append after an
/// add_residual if none of their handles is left, and become an old segment otherwise. Old segments
/// have their own counts and are recycled from the last one backwards.
struct Tape {
  static constexpr std::uint64_t kBalances = 4;

  TapeNode* nodes = nullptr;
  std::uint64_t size = 0;
  std::uint64_t limit = 0;  ///< below it an append needs no look at anything else
  std::uint64_t tag = 0;    ///< names this tape, in the upper half; even in units of 2^32
  std::uint64_t mark = std::uint64_t{1} << 63;  ///< tag plus the first node of the open segment
  /// Copied less destroyed handles of the open segment. Apart from each other, because a load of
  /// two at once would wait for the stores of both.
  struct Balance {
    std::int64_t count = 0, unused = 0;
  };
  std::array<Balance, kBalances> balances{};
  std::uint64_t old = 0;         ///< number of old segments
  std::uint64_t branches = 0;    ///< marks that are kept
  std::uint64_t generation = 0;  ///< moves on when nodes may have been recycled

  std::int64_t& balance_of(std::uint64_t bits) { return balances[bits % kBalances].count; }
};

// Constant initialisation and no destructor: access costs one instruction, and handles that outlive
// the thread's other objects still find their tape closed.
inline constinit thread_local Tape tape{};

/// Recycles what a finished residual left, opens a segment and grows the storage as needed: `count`
/// nodes can be appended then.
void make_room(std::uint64_t count = 1);
/// Counts a handle of an old segment; handles of other threads' tapes are left alone.
void retain_old(std::uint64_t bits);
void release_old(std::uint64_t bits);
/// distance() to an operand whose handle is from before the tape took another tag. Throws
/// Error{StaleValue} that says what is wrong with it if it is no node of this tape, or of a problem
/// that is no more.
std::uint32_t distance_to_old(std::uint64_t id, std::uint64_t operand);
/// The node of a handle, if it is one of this thread's tape; else beyond the tape's size.
std::uint64_t node_of(std::uint64_t bits);
/// A problem is no more: from now on an append to what depends on it throws Error{StaleValue}.
///
/// Costs appends nothing: if there are such nodes, the tape takes another tag, and handles from
/// before it are looked at one by one. Cost: linear in the nodes that are alive on this thread.
void end_values_of(std::uint32_t problem);
/// The residual is complete: its nodes are garbage once their handles are gone.
void finish_residual();
/// finish_residual() however a scope is left.
struct FinishResidual {
  ~FinishResidual() { finish_residual(); }
};

/// Between the two calls, which nest, nodes are made that derivatives do not go through.
void begin_constants();
void end_constants();
/// Whether a node was made so. Cost: logarithmic in the number of old segments.
bool is_made_constant(std::uint64_t id);

/// Records a branch for the residual under construction. Marks live as long as their segment.
void mark_branch(std::uint64_t condition_bits, bool taken);
/// The marks of the open segment, in the order in which they were made.
std::span<const BranchMark> open_branches();
/// The marks on which an expression of these nodes (ascending) depends: all of the segments in
/// which they lie and, until its residual is finished, of the open one. Older segments first.
std::vector<BranchMark> branches_of(std::span<const std::uint64_t> nodes);
/// The number that a variable of the eager mode has now.
double eager_number(std::uint32_t variable);
/// Ends the open segment; what is made from now on lies in a new one.
void begin_segment();
/// The handle of an old node was replaced in the Value that held it.
void release_replaced_old(std::uint64_t bits);

/// Whether the handle points into the open segment of this thread's tape.
inline bool in_open_segment(std::uint64_t bits) {
  return bits - tape.mark < (std::uint64_t{1} << 32);
}

inline void retain(std::uint64_t bits) {
  if (in_open_segment(bits)) {
    ++tape.balance_of(bits);
  } else if (bits != 0) {
    retain_old(bits);
  }
}

inline void release(std::uint64_t bits) {
  if (in_open_segment(bits)) {
    --tape.balance_of(bits);
  } else if (bits != 0) {
    release_old(bits);
  }
}

/// release() of what an assignment replaces: a branch may have decided about it.
inline void release_replaced(std::uint64_t bits) {
  if (in_open_segment(bits)) {
    --tape.balance_of(bits);
  } else if (bits != 0) {
    release_replaced_old(bits);
  }
}

inline std::uint64_t append_leaf(std::uint32_t leaf_head, std::uint32_t a, std::uint32_t b,
                                 std::uint32_t c) {
  Tape& t = tape;
  if (t.size >= t.limit) [[unlikely]]
    make_room();
  const std::uint64_t id = t.size++;
  put(t.nodes[id], leaf_head, a, b, c);
  return t.tag + id;
}

/// Parameter leaves of neighbouring unknowns a, a + 1, ...: the handle of the first; the others
/// follow.
template <std::uint32_t N>
std::uint64_t append_parameters(std::uint32_t a, std::uint32_t problem) {
  Tape& t = tape;
  if (t.size + N > t.limit) [[unlikely]]
    make_room(N);
  const std::uint64_t id = t.size;
  for (std::uint32_t k = 0; k < N; ++k)
    put(t.nodes[id + k], head(ir::Op::Parameter), a + k, problem, 0);
  t.size = id + N;
  return t.tag + id;
}

inline std::uint64_t append_number(std::uint32_t leaf_head, double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number);
  return append_leaf(leaf_head, 0, static_cast<std::uint32_t>(bits),
                     static_cast<std::uint32_t>(bits >> 32));
}

/// The number of a literal or of a data leaf that is neither bound nor symbolic.
inline double number_of(const TapeNode& node) {
  return std::bit_cast<double>((std::uint64_t{node.c} << 32) | node.b);
}

/// Distance from node `id` back to an operand; an operand of another tag is out of reach.
inline std::uint32_t distance(std::uint64_t id, std::uint64_t operand) {
  const std::uint64_t back = tape.tag + id - operand;
  if (back > id) [[unlikely]]
    return distance_to_old(id, operand);
  return static_cast<std::uint32_t>(back);
}

inline std::uint64_t append_op(ir::Op op, std::uint64_t a) {
  Tape& t = tape;
  if (t.size >= t.limit) [[unlikely]]
    make_room();
  const std::uint64_t id = t.size;
  put(t.nodes[id], head(op), distance(id, a), 0, 0);
  t.size = id + 1;
  return t.tag + id;
}

inline std::uint64_t append_op(ir::Op op, std::uint64_t a, std::uint64_t b) {
  Tape& t = tape;
  if (t.size >= t.limit) [[unlikely]]
    make_room();
  const std::uint64_t id = t.size;
  put(t.nodes[id], head(op), distance(id, a), distance(id, b), 0);
  t.size = id + 1;
  return t.tag + id;
}

inline std::uint64_t append_op(ir::Op op, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  Tape& t = tape;
  if (t.size >= t.limit) [[unlikely]]
    make_room();
  const std::uint64_t id = t.size;
  put(t.nodes[id], head(op), distance(id, a), distance(id, b), distance(id, c));
  t.size = id + 1;
  return t.tag + id;
}

}  // namespace topograd::detail
