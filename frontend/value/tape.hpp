// The tape that expressions are traced onto, one per thread, and self-contained pieces of it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "../../ir/language.hpp"
#include "../../ir/op.hpp"

namespace topograd::detail {

/// One traced node: 16 bytes of one element type, so that the compiler knows that a store to the
/// tape cannot change the tape's own counters.
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

/// Writes a node in one store. The next reader loads the whole node (RawShape::same_structure); a
/// load that needs several stores waits until all of them have left the processor's store queue.
inline void put(TapeNode& at, std::uint32_t head, std::uint32_t a, std::uint32_t b,
                std::uint32_t c) {
  using Whole [[gnu::vector_size(16)]] = std::uint32_t;
  *reinterpret_cast<Whole*>(&at) = Whole{head, a, b, c};
}

/// The data leaf was read from a Data array, whose number can be set later.
inline constexpr std::uint32_t kBound = 1u << 8;
/// The leaf stands for a column of a map and has no number of its own.
inline constexpr std::uint32_t kSymbolic = 1u << 9;

/// The parameter is a variable of the eager mode; `a` is its number among the thread's variables.
inline constexpr std::uint32_t kEager = 1u << 10;

/// The node reads, or depends on, a problem that was destroyed.
inline constexpr std::uint32_t kGone = 1u << 11;

constexpr std::uint32_t head(ir::Op op, std::uint32_t flags = 0) {
  return static_cast<std::uint32_t>(op) | flags;
}

/// A branch that was taken while an expression was built.
struct BranchMark {
  std::uint64_t condition = 0;  ///< node of the condition
  std::uint64_t at = 0;         ///< size of the tape when it was taken
  bool taken = false;           ///< true if the condition was true
};

/// Nodes of the expressions that this thread is building.
///
/// Handles are counted: every append makes one; the balances count copies up and destructions down.
/// Neighbouring nodes use different balances, whose sum is the count: with a single balance, the
/// handles of an expression, which are destroyed one after the other, would wait for each other's
/// stores.
///
/// The nodes from `mark` on are the open segment. They are recycled at the first append after an
/// add_residual if none of their handles is left, and become an old segment otherwise. Old segments
/// have their own counts and are recycled from the last one backwards.
struct Tape {
  static constexpr std::uint64_t kBalances = 4;

  TapeNode* nodes = nullptr;
  std::uint64_t size = 0;
  std::uint64_t limit = 0;  ///< an append below it needs no other check
  std::uint64_t tag = 0;    ///< identifies this tape, in the upper half; even in units of 2^32
  std::uint64_t mark = std::uint64_t{1} << 63;  ///< tag plus the first node of the open segment
  /// Copies minus destructions of handles of the open segment. Padded, because one load of two
  /// balances would wait for the stores of both.
  struct Balance {
    std::int64_t count = 0, unused = 0;
  };
  std::array<Balance, kBalances> balances{};
  std::uint64_t old = 0;         ///< number of old segments
  std::uint64_t branches = 0;    ///< marks that are stored
  std::uint64_t generation = 0;  ///< incremented when nodes may have been recycled

  std::int64_t& balance_of(std::uint64_t bits) { return balances[bits % kBalances].count; }
};

// Constant initialisation and no destructor: access costs one instruction, and handles that outlive
// the thread's other objects find their tape closed.
inline constinit thread_local Tape tape{};

/// Recycles the nodes of finished residuals, opens a segment and grows the storage, so that `count`
/// nodes can be appended.
void make_room(std::uint64_t count = 1);
/// Counts a handle of an old segment; ignores handles of other threads' tapes.
void retain_old(std::uint64_t bits);
void release_old(std::uint64_t bits);
/// distance() to an operand whose handle is older than the tape's present tag. Throws
/// Error{StaleValue} that says what is wrong if the operand is not a node of this tape, or belongs
/// to a problem that was destroyed.
std::uint32_t distance_to_old(std::uint64_t id, std::uint64_t operand);
/// The node of a handle of this thread's tape; otherwise a number beyond the tape's size.
std::uint64_t node_of(std::uint64_t bits);
/// Called when a problem is destroyed: later appends to its Values throw Error{StaleValue}.
///
/// Appends do not become slower: if there are such nodes, the tape takes another tag, and older
/// handles are checked one by one. Cost: linear in the nodes that are alive on this thread.
void end_values_of(std::uint32_t problem);
/// Marks the residual as complete: its nodes are garbage once their handles are gone.
void finish_residual();
/// Calls finish_residual() at the end of a scope.
struct FinishResidual {
  ~FinishResidual() { finish_residual(); }
};

/// While it lives, an append to an open segment of `most` nodes throws Error{Unsupported}: for
/// callers who have another way to evaluate what is long.
class TraceLimit {
 public:
  explicit TraceLimit(std::uint64_t most);
  ~TraceLimit();
  TraceLimit(const TraceLimit&) = delete;
  TraceLimit& operator=(const TraceLimit&) = delete;

 private:
  std::uint64_t before_;
};

/// Derivatives do not pass through nodes made between the two calls. Calls nest.
void begin_constants();
void end_constants();
/// True if a node was made between them. Cost: logarithmic in the number of old segments.
bool is_made_constant(std::uint64_t id);

/// Records a branch for the residual under construction. Marks live as long as their segment.
void mark_branch(std::uint64_t condition_bits, bool taken);
/// The marks of the open segment, in the order of the branches.
std::span<const BranchMark> open_branches();
/// The marks on which an expression of these nodes (ascending) depends: all marks of the nodes'
/// segments and, until its residual is finished, of the open segment. Older segments first.
std::vector<BranchMark> branches_of(std::span<const std::uint64_t> nodes);
/// The present number of a variable of the eager mode.
double eager_number(std::uint32_t variable);
/// Ends the open segment; later nodes lie in a new one.
void begin_segment();
/// Tells the tape that the handle of an old node was replaced in the Value that held it.
void release_replaced_old(std::uint64_t bits);

/// True if the handle points into the open segment of this thread's tape.
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

/// Releases a handle that an assignment replaces: a branch may have decided about the assignment.
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

/// Appends parameter leaves of neighbouring unknowns a, a + 1, ... and returns the handle of the
/// first; the others follow.
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

/// Distance from node `id` back to an operand, which is out of reach if its tag differs.
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
  std::size_t older_ = 0;                // ids from before the open segment
  std::uint64_t open_begin_ = 0;         // first node of the open segment
  std::vector<std::uint32_t> position_;  // by node of the open segment: its position
  std::vector<TapeNode> nodes_;
  std::vector<std::uint32_t> rows_;
  std::vector<BranchMark> branches_;
  std::vector<RawGuard> guards_;
};

}  // namespace topograd::detail
