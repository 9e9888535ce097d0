// Recycling and growth of the per-thread tape, and the nodes that rows need.
#include "tape.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"

namespace topograd::detail {
namespace {

constexpr std::uint64_t kFirstCapacity = 1024;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 32;
constexpr std::uint64_t kTagMask = ~std::uint64_t{0} << 32;

/// A part of the tape to which older handles refer.
struct Segment {
  std::uint64_t begin;
  std::int64_t live;
  bool constant;           ///< true if made between begin_constants() and end_constants()
  std::size_t first_mark;  ///< its first branch; the next segment's first_mark is their end
  /// Branches of later segments that decided to which of this segment's nodes a Value refers. Their
  /// conditions are kept alive as handles are.
  std::vector<BranchMark> inherited = {};
};

/// An old segment with a handle that was copied after a branch in the open segment.
struct Touched {
  std::size_t segment;
  std::int64_t live;  ///< handles before the branch
  bool replaced;      ///< true if a handle of it was replaced in a Value since then
};

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// The storage of the thread's tape; closes the tape at the end of the thread.
struct Storage {
  std::unique_ptr<TapeNode[]> nodes;
  std::uint64_t capacity = 0;
  std::vector<Segment> old;
  std::vector<BranchMark> marks;    // of all segments, in their order
  std::size_t first_open_mark = 0;  // first mark of the open segment
  std::vector<Touched> touched;
  std::vector<std::uint64_t> shared;   // nodes with marks of mark_shared(), ascending
  std::vector<std::uint64_t> retired;  // older tags that handles of old segments may have
  int constant_depth = 0;
  std::uint64_t most = kNoLimit;  // nodes of the open segment

  ~Storage() { tape = Tape{}; }
};

thread_local Storage storage;

std::uint64_t next_tag() {
  // Even tags keep in_open_segment() one comparison: tags differ by at least 2^33.
  static std::atomic<std::uint64_t> tapes{0};
  return (2 * ++tapes) << 32;
}

void open_tape() {
  tape.tag = next_tag();
  tape.mark = tape.tag;
  tape.balances = {};
}

std::int64_t live_in_open_segment() {
  const auto appended = static_cast<std::int64_t>(tape.size - (tape.mark - tape.tag));
  std::int64_t live = appended;
  for (const Tape::Balance& balance : tape.balances) live += balance.count;
  return live;
}

bool has_open_marks() { return storage.marks.size() > storage.first_open_mark; }

void forget_marks(std::size_t first) {
  storage.marks.resize(first);
  storage.first_open_mark = first;
  tape.branches = first;
}

/// Recycles the old segments behind which no handle is alive.
void recycle_old() {
  std::vector<Segment>& old = storage.old;
  while (!old.empty() && old.back().live == 0) {
    tape.size = old.back().begin;
    forget_marks(old.back().first_mark);
    old.pop_back();
  }
  if (old.empty()) storage.retired.clear();
  tape.mark = tape.tag + tape.size;
  tape.old = old.size();
}

/// Recycles the open segment and the old segments behind which no handle is alive.
void recycle() {
  tape.size = tape.mark - tape.tag;
  tape.balances = {};
  ++tape.generation;
  forget_marks(storage.first_open_mark);
  if (tape.old != 0) recycle_old();
  while (!storage.shared.empty() && storage.shared.back() >= tape.size) storage.shared.pop_back();
}

void close_segment() {
  storage.old.push_back({tape.mark - tape.tag, live_in_open_segment(), storage.constant_depth > 0,
                         storage.first_open_mark});
  storage.first_open_mark = storage.marks.size();
  ++tape.generation;
  tape.old = storage.old.size();
  tape.mark = tape.tag + tape.size;
  tape.balances = {};
}

void grow() {
  const std::uint64_t capacity = std::max(kFirstCapacity, storage.capacity * 2);
  if (capacity > kMaxCapacity)
    throw Error(ErrorCode::OutOfHostMemory, "tape: more than 2^32 nodes are alive on one thread");
  auto nodes = std::make_unique_for_overwrite<TapeNode[]>(capacity);
  std::copy_n(storage.nodes.get(), tape.size, nodes.get());
  storage.nodes = std::move(nodes);
  storage.capacity = capacity;
  tape.nodes = storage.nodes.get();
}

Segment* old_segment_of(std::uint64_t bits) {
  const std::uint64_t id = node_of(bits);
  if (id >= tape.size) return nullptr;
  const auto after =
      std::upper_bound(storage.old.begin(), storage.old.end(), id,
                       [](std::uint64_t value, const Segment& s) { return value < s.begin; });
  return after == storage.old.begin() ? nullptr : &*(after - 1);
}

/// Starts a new segment for later nodes.
void split_segment() {
  if (tape.tag == 0) return;
  if (live_in_open_segment() == 0 && !has_open_marks()) {
    recycle();
  } else {
    close_segment();
  }
}

/// Gives the open segment's branches to the old segments among whose nodes they may have chosen:
/// those in which, since the branch, a Value has changed to or from one of their nodes.
void pass_marks_on() {
  const std::vector<Touched> touched = std::move(storage.touched);
  for (const Touched& t : touched) {
    Segment& segment = storage.old[t.segment];
    if (segment.live <= t.live && !(t.replaced && segment.live > 0)) continue;
    for (std::size_t k = storage.first_open_mark; k < storage.marks.size(); ++k) {
      segment.inherited.push_back(storage.marks[k]);
      retain(tape.tag + storage.marks[k].condition);
    }
  }
  storage.touched.clear();
}

/// Recycles the open segment if it has no handles left; closes it if its residual is finished.
void settle() {
  const bool finished = tape.limit == 0;
  if (finished && !storage.touched.empty()) pass_marks_on();
  if (live_in_open_segment() == 0 && (finished || !has_open_marks())) {
    recycle();
  } else if (finished) {
    close_segment();
  }
}

/// Marks the nodes that depend on a problem; returns true if there are any.
bool mark_gone(std::uint32_t problem) {
  bool any = false;
  for (std::uint64_t id = 0; id < tape.size; ++id) {
    TapeNode& node = tape.nodes[id];
    const int arity = ir::arity(node.op());
    bool gone = false;
    if (arity == 0) {
      const bool owned = node.op() == ir::Op::Parameter || node.op() == ir::Op::Uniform ||
                         (node.head & (kBound | kSymbolic)) != 0;
      gone = owned && (node.head & kEager) == 0 && node.b == problem;
    }
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int k = 0; k < arity; ++k) gone = gone || (tape.nodes[id - back[k]].head & kGone) != 0;
    if (gone) node.head |= kGone;
    any = any || gone;
  }
  return any;
}

std::size_t end_of_marks(std::size_t segment) {
  return segment + 1 < storage.old.size() ? storage.old[segment + 1].first_mark
                                          : storage.first_open_mark;
}

}  // namespace

void make_room(std::uint64_t count) {
  if (tape.tag == 0) open_tape();
  if (tape.limit == 0 || tape.size + count > storage.capacity) settle();
  if (tape.size + count > storage.capacity) grow();
  tape.limit = storage.capacity;
  if (storage.most == kNoLimit) return;
  const std::uint64_t first = tape.mark - tape.tag;
  if (tape.size + count > first + storage.most)
    throw Error(ErrorCode::Unsupported,
                "the expression has more than " + std::to_string(storage.most) + " operations");
  tape.limit = std::min(tape.limit, first + storage.most);
}

TraceLimit::TraceLimit(std::uint64_t most) : before_(std::exchange(storage.most, most)) {
  if (tape.limit != 0) tape.limit = tape.size;  // the next append looks at the limit
}

TraceLimit::~TraceLimit() {
  storage.most = before_;
  if (tape.limit != 0) tape.limit = tape.size;
}

void finish_residual() { tape.limit = 0; }

void begin_constants() {
  if (storage.constant_depth == 0) split_segment();
  ++storage.constant_depth;
}

void end_constants() {
  if (storage.constant_depth == 1) split_segment();
  --storage.constant_depth;
}

bool is_made_constant(std::uint64_t id) {
  if (in_open_segment(tape.tag + id)) return storage.constant_depth > 0;
  const Segment* segment = old_segment_of(tape.tag + id);
  return segment != nullptr && segment->constant;
}

void retain_old(std::uint64_t bits) {
  Segment* segment = old_segment_of(bits);
  if (segment == nullptr) return;
  if (has_open_marks()) {
    const auto number = static_cast<std::size_t>(segment - storage.old.data());
    const auto same = [&](const Touched& t) { return t.segment == number; };
    if (std::none_of(storage.touched.begin(), storage.touched.end(), same))
      storage.touched.push_back({number, segment->live, false});
  }
  ++segment->live;
}

void release_old(std::uint64_t bits) {
  Segment* segment = old_segment_of(bits);
  if (segment == nullptr || --segment->live > 0 || segment->inherited.empty()) return;
  const std::vector<BranchMark> inherited = std::move(segment->inherited);
  segment->inherited.clear();
  for (const BranchMark& mark : inherited) release(tape.tag + mark.condition);
}

void release_replaced_old(std::uint64_t bits) {
  for (Touched& t : storage.touched) t.replaced = true;
  release_old(bits);
}

void begin_segment() {
  finish_residual();
  make_room();
}

void mark_branch(std::uint64_t condition_bits, bool taken) {
  if (tape.size >= tape.limit) make_room();
  storage.marks.push_back({node_of(condition_bits), tape.size, taken});
  tape.branches = storage.marks.size();
}

std::span<const BranchMark> open_branches() {
  return std::span<const BranchMark>(storage.marks).subspan(storage.first_open_mark);
}

std::vector<BranchMark> branches_of(std::span<const std::uint64_t> nodes) {
  std::vector<BranchMark> out;
  const std::uint64_t open = tape.mark - tape.tag;
  std::size_t k = 0;
  while (k < nodes.size() && nodes[k] < open) {
    const Segment* segment = old_segment_of(tape.tag + nodes[k]);
    const auto number = static_cast<std::size_t>(segment - storage.old.data());
    const std::uint64_t end =
        number + 1 < storage.old.size() ? storage.old[number + 1].begin : open;
    for (std::size_t m = segment->first_mark; m < end_of_marks(number); ++m)
      out.push_back(storage.marks[m]);
    out.insert(out.end(), segment->inherited.begin(), segment->inherited.end());
    while (k < nodes.size() && nodes[k] < end) ++k;
  }
  if (k < nodes.size() || tape.limit != 0) {
    const std::span<const BranchMark> marks = open_branches();
    out.insert(out.end(), marks.begin(), marks.end());
  }
  return out;
}

std::uint64_t node_of(std::uint64_t bits) {
  const std::uint64_t tag = bits & kTagMask;
  const std::uint64_t id = bits & ~kTagMask;
  if (tag == tape.tag && tag != 0) return id;
  const bool known =
      std::find(storage.retired.begin(), storage.retired.end(), tag) != storage.retired.end();
  return known ? id : ~std::uint64_t{0};
}

std::uint32_t distance_to_old(std::uint64_t id, std::uint64_t operand) {
  if (operand == 0)
    throw Error(ErrorCode::StaleValue, "value: a default-constructed Value has no expression");
  const std::uint64_t node = node_of(operand);
  if (node >= id)
    throw Error(ErrorCode::StaleValue,
                "value: a Value belongs to another thread, or its thread has ended");
  if ((tape.nodes[node].head & kGone) != 0)
    throw Error(ErrorCode::StaleValue, "value: a Value belongs to a problem that is gone");
  return static_cast<std::uint32_t>(id - node);
}

void mark_shared(std::uint64_t bits) {
  const std::uint64_t id = node_of(bits);
  if (id >= tape.size || ir::is_leaf(tape.nodes[id].op())) return;
  const auto at = std::ranges::lower_bound(storage.shared, id);
  if (at == storage.shared.end() || *at != id) storage.shared.insert(at, id);
}

std::span<const std::uint64_t> shared_nodes() { return storage.shared; }

void end_values_of(std::uint32_t problem) {
  if (tape.tag == 0) return;
  settle();
  if (!mark_gone(problem)) return;
  if (!storage.touched.empty()) pass_marks_on();
  split_segment();  // all handles with the old tag then belong to old segments
  storage.retired.push_back(tape.tag);
  tape.tag = next_tag();
  tape.mark = tape.tag + tape.size;
}

std::uint32_t CompactTape::position(std::uint64_t id) const {
  if (id >= open_begin_) return position_[id - open_begin_];
  const auto last = ids_.begin() + static_cast<std::ptrdiff_t>(older_);
  return static_cast<std::uint32_t>(std::lower_bound(ids_.begin(), last, id) - ids_.begin());
}

/// Collects the nodes of the open segment that rows and conditions need, in descending order, and
/// what they need of older nodes.
void CompactTape::collect_open(std::span<const std::uint64_t> rows) {
  constexpr std::uint32_t kNeeded = 1;
  open_begin_ = tape.mark - tape.tag;
  open_begin_ = std::min(open_begin_, tape.size);
  position_.assign(tape.size - open_begin_, 0);
  const auto need = [&](std::uint64_t id) {
    if (id >= open_begin_) {
      position_[id - open_begin_] = kNeeded;
    } else {
      open_.push_back(id);
      std::push_heap(open_.begin(), open_.end());
    }
  };
  for (const std::uint64_t row : rows) need(row);
  for (const BranchMark& branch : branches_) need(branch.condition);
  for (std::size_t k = position_.size(); k-- > 0;) {
    if (position_[k] != kNeeded) continue;
    const std::uint64_t id = open_begin_ + k;
    ids_.push_back(id);
    const TapeNode& node = tape.nodes[id];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) need(id - back[j]);
  }
}

/// The ids of all nodes that rows and conditions need, ascending.
void CompactTape::collect(std::span<const std::uint64_t> rows) {
  ids_.clear();
  open_.clear();
  collect_open(rows);
  const std::size_t newer = ids_.size();
  // Older nodes may lie anywhere. In descending order, by a heap, no node is seen twice.
  while (!open_.empty()) {
    const std::uint64_t id = open_.front();
    std::pop_heap(open_.begin(), open_.end());
    open_.pop_back();
    if (ids_.size() > newer && ids_.back() == id) continue;
    ids_.push_back(id);
    const TapeNode& node = tape.nodes[id];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int k = 0; k < ir::arity(node.op()); ++k) {
      open_.push_back(id - back[k]);
      std::push_heap(open_.begin(), open_.end());
    }
  }
  older_ = ids_.size() - newer;
  std::reverse(ids_.begin(), ids_.end());
  for (std::size_t k = older_; k < ids_.size(); ++k)
    position_[ids_[k] - open_begin_] = static_cast<std::uint32_t>(k);
}

void CompactTape::assign(std::span<const std::uint64_t> rows) {
  branches_.clear();
  collect(rows);
  // A condition may depend on earlier branches.
  while (tape.branches != 0) {
    std::vector<BranchMark> found = branches_of(ids_);
    if (found.size() == branches_.size()) break;
    branches_ = std::move(found);
    collect(rows);
  }

  nodes_.clear();
  for (std::uint32_t at = 0; at < ids_.size(); ++at) {
    TapeNode node = tape.nodes[ids_[at]];
    const int arity = ir::arity(node.op());
    if (arity > 0) node.a = at - position(ids_[at] - node.a);
    if (arity > 1) node.b = at - position(ids_[at] - node.b);
    if (arity > 2) node.c = at - position(ids_[at] - node.c);
    nodes_.push_back(node);
  }
  rows_.clear();
  for (const std::uint64_t row : rows) rows_.push_back(position(row));
  guards_.clear();
  for (const BranchMark& branch : branches_)
    guards_.push_back({position(branch.condition), branch.taken});
}

}  // namespace topograd::detail
