// Recycling and growth of the per-thread tape.
#include <topograd/frontend/tape.hpp>
#include <topograd/ir/error.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace topograd::detail {
namespace {

constexpr std::uint64_t kFirstCapacity = 1024;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 32;
constexpr std::uint64_t kTagMask = ~std::uint64_t{0} << 32;

/// A part of the tape that older handles refer to.
struct Segment {
  std::uint64_t begin;
  std::int64_t live;
  bool constant;  ///< made between begin_constants() and end_constants()
};

/// What the thread's tape owns; closes it at the end of the thread.
struct Storage {
  std::unique_ptr<TapeNode[]> nodes;
  std::uint64_t capacity = 0;
  std::vector<Segment> old;
  int constant_depth = 0;

  ~Storage() { tape = Tape{}; }
};

thread_local Storage storage;

void open_tape() {
  // Even tags keep in_open_segment() one comparison: tags differ by at least 2^33.
  static std::atomic<std::uint64_t> tapes{0};
  tape.tag = (2 * ++tapes) << 32;
  tape.mark = tape.tag;
  tape.balance = 0;
}

std::int64_t live_in_open_segment() {
  const auto appended = static_cast<std::int64_t>(tape.size - (tape.mark - tape.tag));
  return appended + tape.balance;
}

/// Takes back the open segment and every old one behind which nothing is alive.
void recycle() {
  tape.size = tape.mark - tape.tag;
  tape.balance = 0;
  if (tape.old == 0) return;
  std::vector<Segment>& old = storage.old;
  while (!old.empty() && old.back().live == 0) {
    tape.size = old.back().begin;
    old.pop_back();
  }
  tape.mark = tape.tag + tape.size;
  tape.old = old.size();
}

void close_segment() {
  storage.old.push_back({tape.mark - tape.tag, live_in_open_segment(), storage.constant_depth > 0});
  tape.old = storage.old.size();
  tape.mark = tape.tag + tape.size;
  tape.balance = 0;
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
  if ((bits & kTagMask) != tape.tag) return nullptr;
  const std::uint64_t id = bits - tape.tag;
  const auto after =
      std::upper_bound(storage.old.begin(), storage.old.end(), id,
                       [](std::uint64_t value, const Segment& s) { return value < s.begin; });
  return after == storage.old.begin() ? nullptr : &*(after - 1);
}

/// What is made from now on is not in one segment with what was made before.
void split_segment() {
  if (tape.tag == 0) return;
  if (live_in_open_segment() == 0) {
    recycle();
  } else {
    close_segment();
  }
}

}  // namespace

void make_room() {
  if (tape.tag == 0) open_tape();
  const bool finished = tape.limit == 0;
  if (finished || tape.size >= storage.capacity) {
    if (live_in_open_segment() == 0) {
      recycle();
    } else if (finished) {
      close_segment();
    }
  }
  if (tape.size >= storage.capacity) grow();
  tape.limit = storage.capacity;
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
  if (Segment* segment = old_segment_of(bits)) ++segment->live;
}

void release_old(std::uint64_t bits) {
  if (Segment* segment = old_segment_of(bits)) --segment->live;
}

void bad_operand(std::uint64_t bits) {
  if (bits == 0)
    throw Error(ErrorCode::StaleValue, "value: a default-constructed Value has no expression");
  throw Error(ErrorCode::StaleValue,
              "value: a Value belongs to another thread, or its thread has ended");
}

}  // namespace topograd::detail
