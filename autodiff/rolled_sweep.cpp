// Finds repetitions in programs, and evaluates them as loops, forward and backward.
#include "rolled_sweep.hpp"

#include "../ir/passes/passes.hpp"
#include "../ir/program.hpp"
#include "node_sweep.hpp"
#include "rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::Op;

/// Ops that are compared to find where a piece of a program occurs again.
constexpr std::size_t kPiece = 12;
/// Next occurrences that are tried as periods.
constexpr int kTried = 16;
constexpr std::uint32_t kLeastCount = 4;
/// Nodes of a loop.
constexpr std::size_t kLeastNodes = 32;
/// Columns of one sweep.
constexpr std::size_t kWide = 16;
/// Layouts that are tried.
constexpr int kMostLayouts = 24;

/// For each node: where the ops from it on occur next, or the end.
std::vector<Id> next_alike(const ir::Program& f) {
  // The hash of a piece, Σ (op + 1) C^(distance to its end), is that of the piece one node behind
  // without its last op, times 1/C, and the first one.
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u, kInverse = 0xF1DE83E19937733Du;
  static_assert(kFactor * kInverse == 1);
  constexpr std::uint64_t kFirst = [] {
    std::uint64_t power = 1;
    for (std::size_t k = 0; k < kPiece; ++k) power *= kFactor;
    return power;
  }();
  const std::size_t size = f.nodes.size();
  const auto number = [&](std::size_t id) {
    return static_cast<std::uint64_t>(f.nodes[id].op) + 1;
  };
  std::vector<Id> next(size, static_cast<Id>(size));
  std::vector<Id> last(std::size_t{1} << 16, static_cast<Id>(size));
  std::uint64_t hash = 0;
  for (std::size_t at = size; at-- > 0;) {
    if (at + kPiece < size) {
      hash = (hash - number(at + kPiece) * kFactor) * kInverse + number(at) * kFirst;
    } else {
      hash = 0;
      for (std::size_t k = at; k < size; ++k) hash = (hash + number(k)) * kFactor;
    }
    Id& latest = last[hash >> 48];
    next[at] = latest;
    latest = static_cast<Id>(at);
  }
  return next;
}

/// The node continues what the ones `period` and 2 `period` before it begin.
bool continues(const ir::Program& f, std::size_t at, std::size_t period) {
  const ir::Node &n = f.nodes[at], &one = f.nodes[at - period], &two = f.nodes[at - 2 * period];
  if (n.op != one.op) return false;
  if (n.op == Op::Literal) return n == one && one == two;
  const std::size_t arguments = ir::is_leaf(n.op) ? 1 : n.operands().size();
  for (std::size_t k = 0; k < arguments; ++k)
    if (n.args[k] - one.args[k] != one.args[k] - two.args[k]) return false;
  return true;
}

/// Finds the end of the repetition that begins at `first` and has this period.
///
///   known  the same of another period that was tried; 0: none
std::size_t end_of_repetition(const ir::Program& f, std::size_t first, std::size_t period,
                              std::size_t known_period, std::size_t known) {
  const std::size_t size = f.nodes.size();
  std::size_t end = first + 2 * period;
  if (known_period > 0 && period % known_period == 0 && end <= known) {
    end = known;  // what moves by a distance moves by a multiple of it, too
  } else {
    for (std::size_t k = first; k < first + period; ++k)
      if (f.nodes[k].op != f.nodes[k + period].op) return first + period;
  }
  while (end < size && continues(f, end, period)) ++end;
  return end;
}

/// The best period that was tried for the nodes from one on, and where its repetition ends.
struct Tried {
  RepeatedNodes best;
  std::size_t end = 0;

  std::size_t covered() const { return std::size_t{best.count} * best.period; }

  /// Tries a period. Returns true if it covers more nodes than the best one.
  bool improve(const ir::Program& f, std::uint32_t period) {
    const std::size_t first = best.first;
    if (first + std::size_t{kLeastCount} * period > f.nodes.size()) return false;
    const std::size_t its_end = end_of_repetition(f, first, period, best.period, end);
    const auto count = static_cast<std::uint32_t>((its_end - first) / period);
    const std::size_t nodes = std::size_t{count} * period;
    if (count < kLeastCount || nodes < kLeastNodes || nodes <= covered()) return false;
    best = {best.first, period, count};
    end = its_end;
    return true;
  }
};

}  // namespace

std::vector<RepeatedNodes> find_repetitions(const ir::Program& f) {
  const std::size_t size = f.nodes.size();
  const std::vector<Id> next = next_alike(f);
  std::vector<RepeatedNodes> out;
  for (std::size_t at = 0; at < size;) {
    Tried tried{.best = {.first = static_cast<Id>(at)}};
    const auto is_most = [&] { return tried.covered() > (size - at) / 2; };
    // Periods up to the next occurrences from `again` on.
    const auto look = [&](Id again) {
      for (int k = 0; k < kTried && again < size; ++k, again = next[again])
        if (tried.improve(f, again - tried.best.first) && is_most()) return;
    };
    look(next[at]);
    if (tried.best.count > 0 && !is_most()) {
      // It may be an inner loop: look behind its end.
      Id behind = tried.best.first;
      while (behind < size && behind < tried.best.first + tried.covered()) behind = next[behind];
      look(behind);
    }
    if (tried.best.count > 0) out.push_back(tried.best);
    at += std::max<std::size_t>(tried.covered(), 1);
  }
  return out;
}

/// Where the numbers of a program's nodes are kept.
class RolledSweep::Layout {
 public:
  Layout(const ir::Program& f, const std::vector<RepeatedNodes>& loops) : f_(f), loops_(loops) {
    find_parts();
    find_movers();
  }

  /// False if something is read in a way that no loop has, and then repair() may help.
  bool make(RolledSweep& sweep);
  /// Divides a loop, or gives it up. Returns false if there is nothing to change.
  bool repair(std::vector<RepeatedNodes>& loops) const;
  /// Nodes that loops save.
  std::size_t repeated() const;

 private:
  /// A loop, or nodes that are not repeated: count 1.
  struct Piece {
    Id first = 0;
    std::uint32_t period = 0, count = 1;
    std::uint32_t first_item = 0;
    std::size_t loop = 0;  ///< its number, if it is one
    bool is_loop() const { return count > 1; }
    std::int64_t end() const { return std::int64_t{first} + std::int64_t{period} * count; }
  };
  /// What keeps the program from being rolled: a loop, and the repetition before which it is to be
  /// divided; 0: it is to be given up.
  struct Obstacle {
    std::size_t loop = 0;
    std::uint32_t at = 0;
  };
  /// What is kept of a node of a piece: one number, or one for each repetition and for some nodes
  /// before and after the loop that are in the same distance.
  struct Kept {
    bool moves = false;
    std::int64_t before = 0, after = 0;
    bool all = false;
    bool is_state = false;  // a later repetition reads it
    std::uint32_t value = 0, tangent = 0;
  };
  /// What an operand reads: an item, from the repetition `repetition` on, each time `step` further.
  struct Read {
    std::size_t piece = 0;
    std::uint32_t item = 0;
    std::int64_t repetition = 0, step = 0;
    bool is_local = false;
  };

  void find_parts();
  void find_movers();
  std::size_t piece_of(std::int64_t id) const;
  std::optional<Read> read(std::size_t piece, std::uint32_t item, std::size_t operand);
  std::optional<Read> loop_read(std::size_t piece, std::int64_t first, std::int64_t stride);
  bool stays_within(std::size_t piece, std::size_t of, std::int64_t first, std::int64_t stride);
  bool keep(const Read& read, std::uint32_t count);
  bool keep_what_is_read();
  bool assign_indices(RolledSweep& sweep);
  bool claim(const Piece& piece, std::uint32_t item, const Kept& kept);
  RolledSweep::AffineIndex value_of(const Read& read) const;
  RolledSweep::AffineIndex tangent_of(const Read& read) const;
  void write(RolledSweep& sweep);
  Item write(std::size_t piece, std::uint32_t item, bool guarded);
  std::vector<std::uint32_t> order(std::size_t piece) const;
  void find_facts(RolledSweep& sweep) const;

  const ir::Program& f_;
  const std::vector<RepeatedNodes>& loops_;
  std::optional<Obstacle> obstacle_;
  std::vector<Piece> pieces_;
  std::vector<Kept> kept_;  // by item of all pieces
  std::vector<std::uint8_t> moves_;
  /// Index of a single node beside those of a loop.
  struct Claimed {
    std::uint32_t value = 0, tangent = 0;
    bool has_tangent = false;
  };
  std::map<Id, Claimed> claimed_;
};

void RolledSweep::Layout::find_parts() {
  Id at = 0;
  const auto add = [&](Id first, std::uint32_t period, std::uint32_t count, std::size_t loop) {
    if (period == 0) return;
    const auto items = static_cast<std::uint32_t>(kept_.size());
    pieces_.push_back({first, period, count, items, loop});
    kept_.resize(kept_.size() + period);
  };
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    RepeatedNodes loop = loops_[k];
    // Between two loops are nodes that belong to none, as before the first and after the last one.
    if (at > 0 && loop.first - at < loop.period) loop.first += loop.period, --loop.count;
    const Id end = loop.first + loop.period * loop.count;
    if (k + 1 < loops_.size() && loops_[k + 1].first - end < loop.period) --loop.count;
    if (loop.count < 2) continue;
    add(at, loop.first - at, 1, 0);
    add(loop.first, loop.period, loop.count, k);
    at = loop.first + loop.period * loop.count;
  }
  add(at, static_cast<Id>(f_.nodes.size()) - at, 1, 0);
}

void RolledSweep::Layout::find_movers() {
  moves_.resize(f_.nodes.size());
  for (const Piece& piece : pieces_) {
    for (Id id = piece.first; id < piece.first + piece.period * piece.count; ++id) {
      const ir::Node& n = f_.nodes[id];
      bool moves = n.op == Op::Parameter;
      for (const Id from : n.operands()) moves |= moves_[from] != 0;
      moves_[id] = moves;
      kept_[piece.first_item + (id - piece.first) % piece.period].moves |= moves;
    }
  }
}

std::size_t RolledSweep::Layout::piece_of(std::int64_t id) const {
  const auto after = std::ranges::upper_bound(
      pieces_, id, {}, [](const Piece& piece) { return std::int64_t{piece.first}; });
  return static_cast<std::size_t>(after - pieces_.begin()) - 1;
}

std::optional<RolledSweep::Layout::Read> RolledSweep::Layout::read(std::size_t piece,
                                                                   std::uint32_t item,
                                                                   std::size_t operand) {
  const Piece& p = pieces_[piece];
  const std::int64_t first = f_.nodes[p.first + item].args[operand];
  const std::int64_t second =
      p.is_loop() ? f_.nodes[p.first + p.period + item].args[operand] : first;
  if (second != first) return loop_read(piece, first, second - first);
  const std::size_t of = piece_of(first);
  const Piece& from = pieces_[of];
  const auto distance = static_cast<std::uint32_t>(first) - from.first;
  return Read{of, distance % from.period, distance / from.period, 0, of == piece && !p.is_loop()};
}

/// True if the loop `of`, and the nodes right before and after it, have all that is read.
bool RolledSweep::Layout::stays_within(std::size_t piece, std::size_t of, std::int64_t first,
                                       std::int64_t stride) {
  const Piece& p = pieces_[piece];
  const bool open_before = of > 0 && !pieces_[of - 1].is_loop();
  const bool open_after = of + 1 < pieces_.size() && !pieces_[of + 1].is_loop();
  const std::int64_t begin = open_before ? pieces_[of - 1].first : pieces_[of].first;
  const std::int64_t end = open_after ? pieces_[of + 1].end() : pieces_[of].end();
  const auto inside = [&](std::int64_t k) {
    const std::int64_t id = first + k * stride;
    return id >= begin && id < end;
  };
  for (std::int64_t k = 1; k < p.count; ++k) {
    if (inside(k) == inside(0)) continue;
    obstacle_ = {p.loop, static_cast<std::uint32_t>(k)};
    return false;
  }
  return inside(0);
}

/// What is read at first, first + stride, ...: of the loop that most of these are in.
std::optional<RolledSweep::Layout::Read> RolledSweep::Layout::loop_read(std::size_t piece,
                                                                        std::int64_t first,
                                                                        std::int64_t stride) {
  const Piece& p = pieces_[piece];
  const std::int64_t middle = p.count / 2;
  const std::size_t of = piece_of(first + stride * middle);
  const Piece& from = pieces_[of];
  obstacle_ = {p.loop, 0};
  if (!from.is_loop() || stride % from.period != 0) return std::nullopt;
  if (!stays_within(piece, of, first, stride)) return std::nullopt;
  const std::int64_t distance = first + stride * middle - from.first;
  const std::int64_t step = stride / from.period;
  Read out{of, static_cast<std::uint32_t>(distance % from.period),
           distance / from.period - step * middle, step, false};
  out.is_local = of == piece && step == 1 && out.repetition == 0;
  return out;
}

bool RolledSweep::Layout::keep(const Read& read, std::uint32_t count) {
  const Piece& from = pieces_[read.piece];
  Kept& kept = kept_[from.first_item + read.item];
  if (read.is_local || !from.is_loop()) return true;
  const std::int64_t last = read.repetition + read.step * (std::int64_t{count} - 1);
  kept.all = true;
  kept.before = std::max(kept.before, -std::min(read.repetition, last));
  kept.after = std::max(kept.after, std::max(read.repetition, last) - (from.count - 1));
  return kept.before <= from.count && kept.after <= from.count;
}

bool RolledSweep::Layout::keep_what_is_read() {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const Piece& p = pieces_[piece];
    for (std::uint32_t item = 0; item < p.period; ++item) {
      const std::size_t operands = f_.nodes[p.first + item].operands().size();
      for (std::size_t k = 0; k < operands; ++k) {
        const std::optional<Read> from = read(piece, item, k);
        if (!from || !keep(*from, p.count)) return false;
        if (from->piece == piece && p.is_loop() && from->step == 1 && !from->is_local)
          kept_[p.first_item + from->item].is_state = true;
      }
    }
  }
  for (const Id row : f_.outputs) {
    const Piece& from = pieces_[piece_of(row)];
    if (from.is_loop()) kept_[from.first_item + (row - from.first) % from.period].all = true;
  }
  return true;
}

/// Nodes before and after a loop that are read as if they were of it have indices next to its own.
bool RolledSweep::Layout::claim(const Piece& piece, std::uint32_t item, const Kept& kept) {
  const auto claim_one = [&](std::int64_t repetition) {
    const std::int64_t id = std::int64_t{piece.first} + item + repetition * piece.period;
    if (id < 0 || id >= static_cast<std::int64_t>(f_.nodes.size())) return false;
    const Piece& other = pieces_[piece_of(id)];
    const bool is_smaller = other.period * other.count < piece.period * piece.count;
    obstacle_ = {other.is_loop() && is_smaller ? other.loop : piece.loop, 0};
    if (other.is_loop()) return false;
    if (moves_[static_cast<std::size_t>(id)] != 0 && !kept.moves) return false;
    const auto offset = static_cast<std::uint32_t>(kept.before + repetition);
    const Claimed claimed{kept.value + offset, kept.tangent + offset, kept.moves};
    return claimed_.try_emplace(static_cast<Id>(id), claimed).second;
  };
  for (std::int64_t k = 1; k <= kept.before; ++k)
    if (!claim_one(-k)) return false;
  for (std::int64_t k = 0; k < kept.after; ++k)
    if (!claim_one(piece.count + k)) return false;
  return true;
}

bool RolledSweep::Layout::assign_indices(RolledSweep& sweep) {
  const auto assign = [&](Kept& kept, std::int64_t numbers) {
    kept.value = sweep.values_;
    sweep.values_ += static_cast<std::uint32_t>(numbers);
    if (!kept.moves) return;
    kept.tangent = sweep.tangents_;
    sweep.tangents_ += static_cast<std::uint32_t>(numbers);
  };
  for (const Piece& piece : pieces_) {
    for (std::uint32_t item = 0; piece.is_loop() && item < piece.period; ++item) {
      Kept& kept = kept_[piece.first_item + item];
      assign(kept, kept.all ? kept.before + piece.count + kept.after : 1);
      if (kept.all && !claim(piece, item, kept)) return false;
    }
  }
  for (const Piece& piece : pieces_) {
    for (std::uint32_t item = 0; !piece.is_loop() && item < piece.period; ++item) {
      Kept& kept = kept_[piece.first_item + item];
      const auto claimed = claimed_.find(piece.first + item);
      if (claimed == claimed_.end()) {
        assign(kept, 1);
        continue;
      }
      kept.value = claimed->second.value;
      kept.tangent = claimed->second.tangent;
      if (claimed->second.has_tangent && !kept.moves) sweep.still_.push_back(kept.tangent);
    }
  }
  return sweep.values_ < 1U << 30U && sweep.tangents_ < 1U << 30U;
}

RolledSweep::AffineIndex RolledSweep::Layout::value_of(const Read& read) const {
  const Kept& kept = kept_[pieces_[read.piece].first_item + read.item];
  if (!kept.all) return {kept.value, 0};
  return {static_cast<std::uint32_t>(kept.value + kept.before + read.repetition),
          static_cast<std::int32_t>(read.step)};
}

RolledSweep::AffineIndex RolledSweep::Layout::tangent_of(const Read& read) const {
  const Kept& kept = kept_[pieces_[read.piece].first_item + read.item];
  if (!kept.all) return {kept.tangent, 0};
  return {static_cast<std::uint32_t>(kept.tangent + kept.before + read.repetition),
          static_cast<std::int32_t>(read.step)};
}

RolledSweep::Item RolledSweep::Layout::write(std::size_t piece, std::uint32_t item, bool guarded) {
  const Piece& p = pieces_[piece];
  const ir::Node& n = f_.nodes[p.first + item];
  const Kept& kept = kept_[p.first_item + item];
  const Read own{piece, item, 0, p.is_loop() ? 1 : 0, false};
  Item out{.op = n.op,
           .moves = kept.moves,
           .guarded_root = guarded,
           .value = value_of(own),
           .tangent = tangent_of(own),
           .operands = {},
           .tangents = {}};
  if (n.op == Op::Literal) {
    out.number = n.literal();
  } else if (ir::is_leaf(n.op)) {
    const std::uint32_t second =
        p.is_loop() ? f_.nodes[p.first + p.period + item].slot() : n.slot();
    out.operands[0] = {n.slot(), static_cast<std::int32_t>(second - n.slot())};
  }
  for (std::size_t k = 0; k < n.operands().size(); ++k) {
    const Read from = *read(piece, item, k);
    out.operands[k] = value_of(from);
    if (!kept_[pieces_[from.piece].first_item + from.item].moves) continue;
    out.reads = static_cast<std::uint8_t>(out.reads | 1U << k);
    out.tangents[k] = tangent_of(from);
  }
  return out;
}

/// Items by depth, then op: neighbours that are computed alike.
std::vector<std::uint32_t> RolledSweep::Layout::order(std::size_t piece) const {
  const Piece& p = pieces_[piece];
  std::vector<std::uint32_t> depth(p.period, 0), out(p.period);
  for (std::uint32_t item = 0; item < p.period; ++item) {
    out[item] = item;
    for (const Id from : f_.nodes[p.first + item].operands())
      if (from >= p.first) depth[item] = std::max(depth[item], depth[from - p.first] + 1);
  }
  const auto key = [&](std::uint32_t k) {
    return std::tuple(depth[k], kept_[p.first_item + k].moves, f_.nodes[p.first + k].op, k);
  };
  std::ranges::sort(out, {}, key);
  return out;
}

void RolledSweep::Layout::write(RolledSweep& sweep) {
  const auto is_root = [](const ir::Node& n) { return n.op == Op::Sqrt; };
  std::optional<Builder> builder;
  if (std::ranges::any_of(f_.nodes, is_root)) builder.emplace(f_);
  const auto guarded = [&](Id id) {
    return is_root(f_.nodes[id]) && builder->traits(f_.nodes[id].args[0]).nonnegative &&
           !builder->traits(id).away;
  };
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    const Piece& p = pieces_[piece];
    const auto first = static_cast<std::uint32_t>(sweep.items_.size());
    sweep.parts_.push_back({first, p.count});
    sweep.by_node_.resize(std::size_t{first} + p.period);
    for (const std::uint32_t item : order(piece)) {
      sweep.by_node_[first + item] = static_cast<std::uint32_t>(sweep.items_.size());
      sweep.items_.push_back(write(piece, item, guarded(p.first + item)));
      sweep.operations_ += ir::is_leaf(f_.nodes[p.first + item].op) ? 0 : p.count;
    }
  }
  sweep.parts_.push_back({static_cast<std::uint32_t>(sweep.items_.size()), 0});
  for (const Id id : f_.outputs) {
    const std::size_t piece = piece_of(id);
    const Piece& p = pieces_[piece];
    const Read row{piece, (id - p.first) % p.period, (id - p.first) / p.period, 0, false};
    const bool moves = kept_[p.first_item + row.item].moves;
    sweep.rows_.push_back({value_of(row).first, tangent_of(row).first, moves});
  }
}

void RolledSweep::Layout::find_facts(RolledSweep& sweep) const {
  std::size_t most = 0;
  for (const Piece& piece : pieces_) {
    if (!piece.is_loop()) continue;
    ++sweep.facts_.loops;
    Facts facts{.steps = piece.count};
    for (std::uint32_t item = 0; item < piece.period; ++item) {
      facts.states += kept_[piece.first_item + item].is_state;
      facts.operations += !ir::is_leaf(f_.nodes[piece.first + item].op);
    }
    sweep.all_loops_.push_back(facts);
    if (facts.steps * facts.operations <= most) continue;
    most = facts.steps * facts.operations;
    facts.loops = sweep.facts_.loops;
    sweep.facts_ = facts;
  }
}

bool RolledSweep::Layout::make(RolledSweep& sweep) {
  if (!keep_what_is_read() || !assign_indices(sweep)) return false;
  write(sweep);
  find_facts(sweep);
  return true;
}

std::size_t RolledSweep::Layout::repeated() const {
  std::size_t out = 0;
  for (const Piece& piece : pieces_)
    if (piece.is_loop()) out += std::size_t{piece.period} * (piece.count - 1);
  return out;
}

bool RolledSweep::Layout::repair(std::vector<RepeatedNodes>& loops) const {
  if (!obstacle_) return false;
  const auto at = loops.begin() + static_cast<std::ptrdiff_t>(obstacle_->loop);
  const auto piece = std::ranges::find_if(
      pieces_, [&](const Piece& p) { return p.is_loop() && p.loop == obstacle_->loop; });
  if (piece == pieces_.end()) return false;
  if (obstacle_->at == 0) {
    loops.erase(at);
    return true;
  }
  const RepeatedNodes behind{piece->first + obstacle_->at * piece->period, piece->period,
                             piece->count - obstacle_->at};
  *at = {piece->first, piece->period, obstacle_->at};
  loops.insert(at + 1, behind);
  return true;
}

std::optional<RolledSweep> RolledSweep::make(const ir::Program& f, Obstacle* why) {
  const auto composite = [](const ir::Node& n) { return ir::info(n.op).composite; };
  if (std::ranges::any_of(f.nodes, composite)) return make(ir::expand(f), why);
  std::vector<RepeatedNodes> loops = find_repetitions(f);
  Obstacle found;
  for (int tried = 0; tried < kMostLayouts; ++tried) {
    const std::vector<RepeatedNodes> now = loops;
    Layout layout(f, now);
    found.repeated = static_cast<double>(layout.repeated()) / static_cast<double>(f.nodes.size());
    if (found.repeated < 0.5) break;
    RolledSweep out;
    if (layout.make(out)) return out;
    const bool repaired = layout.repair(loops);
    found.given_up += !repaired || loops.size() < now.size();
    for (const RepeatedNodes& loop : now)
      found.most_steps = std::max<std::size_t>(found.most_steps, loop.count);
    if (!repaired) break;
  }
  if (why != nullptr) *why = found;
  return std::nullopt;
}

std::size_t RolledSweep::bytes() const {
  return parts_.capacity() * sizeof(Part) + items_.capacity() * sizeof(Item) +
         rows_.capacity() * sizeof(Row) +
         (by_node_.capacity() + still_.capacity()) * sizeof(std::uint32_t);
}

std::size_t RolledSweep::workspace_bytes(std::size_t parameters) const {
  const std::size_t wide = parameters <= 4 ? 4 : parameters <= 8 ? 8 : kWide;
  return (values_ + std::size_t{tangents_} * wide) * sizeof(double);
}

namespace {

/// sum += d t, by the zero rule.
template <std::size_t W>
void add_tangent(std::array<double, W>& sum, double d, const double* t) {
  if (std::isfinite(d)) {
    for (std::size_t column = 0; column < W; ++column) sum[column] += d * t[column];
  } else {
    for (std::size_t column = 0; column < W; ++column)
      sum[column] += t[column] == 0 ? 0 : d * t[column];
  }
}

}  // namespace

template <std::size_t W>
void RolledSweep::run_item(const Item& item, std::uint32_t k, double* v, double* tangents) {
  const double a = v[item.operands[0].at(k)], b = v[item.operands[1].at(k)],
               c = v[item.operands[2].at(k)];
  double& value = v[item.value.at(k)];
  if constexpr (W == 0) {
    value = OpNumbers<false>::any(item.op, a, b, c, false, nullptr);
  } else {
    if (!item.moves) {
      value = OpNumbers<false>::any(item.op, a, b, c, false, nullptr);
      return;
    }
    double d[3];
    value = OpNumbers<true>::any(item.op, a, b, c, item.guarded_root, d);
    std::array<double, W> sum{};
    for (std::size_t e = 0; e < 3; ++e) {
      if ((item.reads >> e & 1U) == 0 || d[e] == 0) continue;  // the zero rule
      const double* const t = tangents + item.tangents[e].at(k) * W;
      add_tangent(sum, d[e], t);
    }
    std::copy_n(sum.data(), W, tangents + item.tangent.at(k) * W);
  }
}

template <std::size_t W>
void RolledSweep::run_leaf(const Item& item, std::uint32_t k, const ir::Inputs<double>& in,
                           std::size_t first_column, Workspace& work) {
  if (item.op == Op::Literal) {
    work.values[item.value.at(k)] = item.number;
    return;
  }
  const std::size_t slot = item.operands[0].at(k);
  work.values[item.value.at(k)] = (*ir::leaf_space(item.op, in))[slot];
  if constexpr (W > 0) {
    if (item.op != Op::Parameter) return;
    double* const t = work.tangents.data() + item.tangent.at(k) * W;
    for (std::size_t c = 0; c < W; ++c) t[c] = slot == first_column + c ? 1 : 0;
  }
}

template <std::size_t W>
void RolledSweep::run(const ir::Inputs<double>& in, std::size_t first_column,
                      Workspace& work) const {
  if (work.values.size() < values_) work.values.resize(values_);
  if (work.tangents.size() < tangents_ * W) work.tangents.resize(tangents_ * W);
  double* const tangents = work.tangents.data();
  if constexpr (W > 0)
    for (const std::uint32_t index : still_) std::fill_n(tangents + index * W, W, 0.0);
  for (std::size_t part = 0; part + 1 < parts_.size(); ++part) {
    const std::span<const Item> items(items_.data() + parts_[part].first_item,
                                      items_.data() + parts_[part + 1].first_item);
    for (std::uint32_t k = 0; k < parts_[part].count; ++k) {
      for (const Item& item : items) {
        if (ir::is_leaf(item.op)) {
          run_leaf<W>(item, k, in, first_column, work);
        } else {
          run_item<W>(item, k, work.values.data(), tangents);
        }
      }
    }
  }
}

void RolledSweep::evaluate(const ir::Inputs<double>& in, std::span<double> out,
                           Workspace& work) const {
  run<0>(in, 0, work);
  for (std::size_t k = 0; k < rows_.size(); ++k) out[k] = work.values[rows_[k].value];
}

template <std::size_t W>
void RolledSweep::write(std::span<const Column> columns, std::size_t first,
                        const Workspace& work) const {
  const std::size_t count = std::min(W, columns.size() - first);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    for (std::size_t k = 0; k < count; ++k) {
      const Column& column = columns[first + k];
      if (column.first != nullptr)
        column.first[r * column.stride] =
            row.moves ? work.tangents[std::size_t{row.tangent} * W + k] : 0;
    }
  }
}

void RolledSweep::linearize(const ir::Inputs<double>& in, std::span<double> out,
                            std::span<const Column> columns, Workspace& work) const {
  const auto sweep = [&]<std::size_t W>(std::integral_constant<std::size_t, W>) {
    for (std::size_t first = 0; first < columns.size(); first += W) {
      run<W>(in, first, work);
      write<W>(columns, first, work);
    }
  };
  if (columns.size() <= 4) {
    sweep(std::integral_constant<std::size_t, 4>());
  } else if (columns.size() <= 8) {
    sweep(std::integral_constant<std::size_t, 8>());
  } else {
    sweep(std::integral_constant<std::size_t, kWide>());
  }
  for (std::size_t k = 0; k < rows_.size(); ++k) out[k] = work.values[rows_[k].value];
}

std::size_t RolledSweep::most_items() const {
  std::size_t most = 0;
  for (std::size_t part = 0; part + 1 < parts_.size(); ++part)
    most = std::max<std::size_t>(most, parts_[part + 1].first_item - parts_[part].first_item);
  return most;
}

std::size_t RolledSweep::backward_bytes() const {
  return (std::size_t{values_} + tangents_ + 3 * most_items()) * sizeof(double);
}

template <class Visit>
void RolledSweep::for_repetitions_backward(const Visit& visit) const {
  for (std::size_t part = parts_.size() - 1; part-- > 0;) {
    const std::span<const Item> items(items_.data() + parts_[part].first_item,
                                      items_.data() + parts_[part + 1].first_item);
    for (std::uint32_t k = parts_[part].count; k-- > 0;) visit(part, items, k);
  }
}

/// Computes the values of a repetition, and three derivatives of each item.
void RolledSweep::run_partials(std::span<const Item> items, std::uint32_t k,
                               const ir::Inputs<double>& in, Workspace& work) const {
  double* const v = work.values.data();
  double* d = work.partials.data();
  for (const Item& item : items) {
    if (ir::is_leaf(item.op)) {
      run_leaf<0>(item, k, in, 0, work);
    } else if (item.moves) {
      const double a = v[item.operands[0].at(k)], b = v[item.operands[1].at(k)],
                   c = v[item.operands[2].at(k)];
      v[item.value.at(k)] = OpNumbers<true>::any(item.op, a, b, c, item.guarded_root, d);
    } else {
      run_item<0>(item, k, v, nullptr);
    }
    d += 3;
  }
}

/// Takes the adjoints of a repetition's items to what they read, and to the parameters in out.
void RolledSweep::pull(std::size_t part, std::uint32_t k, Workspace& work,
                       std::span<double> out) const {
  const std::uint32_t first = parts_[part].first_item;
  double* const adjoints = work.adjoints.data();
  for (std::uint32_t j = parts_[part + 1].first_item; j-- > first;) {
    const Item& item = items_[by_node_[j]];
    if (!item.moves) continue;
    double& own = adjoints[item.tangent.at(k)];
    const double g = own;
    if (g == 0) continue;  // the zero rule
    own = 0;               // an earlier repetition may have the same index
    if (item.op == Op::Parameter) {
      out[item.operands[0].at(k)] += g;
      continue;
    }
    const double* const d = work.partials.data() + std::size_t{3} * (by_node_[j] - first);
    for (unsigned e = 0; e < 3; ++e)
      if ((item.reads >> e & 1U) != 0) adjoints[item.tangents[e].at(k)] += zero_rule(d[e], g);
  }
}

void RolledSweep::linearize_backward(const ir::Inputs<double>& in, std::span<double> out,
                                     std::span<const Column> columns, Workspace& work) const {
  evaluate(in, out, work);
  work.partials.resize(std::max(work.partials.size(), 3 * most_items()));
  std::vector<double> slope(columns.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    std::ranges::fill(slope, 0.0);
    if (rows_[row].moves) {
      work.adjoints.assign(tangents_, 0.0);
      work.adjoints[rows_[row].tangent] = 1;
      for_repetitions_backward([&](std::size_t part, std::span<const Item> items, std::uint32_t k) {
        run_partials(items, k, in, work);
        pull(part, k, work, slope);
      });
    }
    for (std::size_t k = 0; k < columns.size(); ++k)
      if (columns[k].first != nullptr) columns[k].first[row * columns[k].stride] = slope[k];
  }
}

bool RolledSweep::has_curvature() const {
  return std::ranges::all_of(items_, [](const Item& item) {
    return ir::is_leaf(item.op) || has_plain_curvature(item.op);
  });
}

/// The tangents of a repetition's items along p, after run_partials().
void RolledSweep::push_direction(std::span<const Item> items, std::uint32_t k,
                                 std::span<const double> p, Workspace& work) const {
  double* const tangents = work.tangents.data();
  const double* d = work.partials.data();
  for (const Item& item : items) {
    if (item.moves) {
      double sum = item.op == Op::Parameter ? p[item.operands[0].at(k)] : 0;
      for (unsigned e = 0; e < 3; ++e)
        if ((item.reads >> e & 1U) != 0) sum += zero_rule(d[e], tangents[item.tangents[e].at(k)]);
      tangents[item.tangent.at(k)] = sum;
    }
    d += 3;
  }
}

/// As pull(), with pairs of an adjoint and its tangent.
void RolledSweep::pull_curvature(std::size_t part, std::uint32_t k, Workspace& work,
                                 std::span<double> out) const {
  const std::uint32_t first = parts_[part].first_item;
  double* const pairs = work.adjoints.data();
  const double *const v = work.values.data(), *const t = work.tangents.data();
  for (std::uint32_t j = parts_[part + 1].first_item; j-- > first;) {
    const Item& item = items_[by_node_[j]];
    if (!item.moves) continue;
    double* const own = pairs + 2 * item.tangent.at(k);
    const double g = own[0], h = own[1];
    own[0] = own[1] = 0;
    if (item.op == Op::Parameter) {
      out[item.operands[0].at(k)] += h;
      continue;
    }
    if (g == 0 && h == 0) continue;
    const auto tangent_of = [&](unsigned e) {
      return (item.reads >> e & 1U) != 0 ? t[item.tangents[e].at(k)] : 0;
    };
    double of_d[2];
    tangents_of_partials(item.op, v[item.operands[0].at(k)], v[item.operands[1].at(k)],
                         tangent_of(0), tangent_of(1), of_d);
    const double* const d = work.partials.data() + std::size_t{3} * (by_node_[j] - first);
    for (unsigned e = 0; e < 2; ++e) {
      if ((item.reads >> e & 1U) == 0) continue;
      double* const from = pairs + 2 * item.tangents[e].at(k);
      from[0] += zero_rule(d[e], g);
      from[1] += zero_rule(d[e], h) + zero_rule(of_d[e], g);
    }
  }
}

void RolledSweep::add_curvature(const ir::Inputs<double>& in, std::span<const double> weights,
                                std::span<const double> p, std::span<double> out,
                                Workspace& work) const {
  work.values.resize(std::max<std::size_t>(work.values.size(), values_));
  work.partials.resize(std::max(work.partials.size(), 3 * most_items()));
  work.tangents.assign(std::max<std::size_t>(work.tangents.size(), tangents_), 0.0);
  work.adjoints.assign(std::size_t{2} * tangents_, 0.0);
  for (std::size_t part = 0; part + 1 < parts_.size(); ++part) {
    const std::span<const Item> items(items_.data() + parts_[part].first_item,
                                      items_.data() + parts_[part + 1].first_item);
    for (std::uint32_t k = 0; k < parts_[part].count; ++k) {
      run_partials(items, k, in, work);
      push_direction(items, k, p, work);
    }
  }
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (rows_[row].moves) work.adjoints[2 * std::size_t{rows_[row].tangent}] += weights[row];
  for_repetitions_backward([&](std::size_t part, std::span<const Item> items, std::uint32_t k) {
    run_partials(items, k, in, work);
    push_direction(items, k, p, work);
    pull_curvature(part, k, work, out);
  });
}

}  // namespace topograd::autodiff
