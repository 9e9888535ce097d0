// Numbers fronts by level, places their panels and update matrices, and lists their tiles.
#include "level_plan.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace topograd::runtime {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

std::uint32_t tiles(std::uint32_t n) { return (n + kFrontTile - 1) / kFrontTile; }

std::uint32_t checked(std::uint64_t number) {
  if (number > kMost)
    throw Error(ErrorCode::Unsupported, "factorisation on a device: its lists have " +
                                            std::to_string(number) +
                                            " entries, more than 32-bit positions reach");
  return static_cast<std::uint32_t>(number);
}

class Leveller {
 public:
  Leveller(const FactorPlan& plan, const LowerPattern& lower, const LevelPlan::Limits& limits,
           std::span<const std::uint32_t> positions, std::span<const std::uint32_t> scalars)
      : plan_(plan), lower_(lower), limits_(limits), positions_(positions), scalars_(scalars) {
    limits_.numbers = std::min(limits_.numbers, kMost);  // positions are 32-bit
  }

  LevelPlan make() {
    number_fronts();
    place_fronts();
    for (std::size_t l = 0; l < out_.levels.size(); ++l) list_tiles(l);
    list_rows();
    list_entries();
    find_most();
    out_.pivot_scalars = plan_.order;
    for (std::uint32_t& column : out_.pivot_scalars) {
      column = scalar(column);
      out_.scalars = std::max(out_.scalars, column + 1);
    }
    out_.operations = plan_.operations;
    out_.nonzeros = plan_.nonzeros;
    return std::move(out_);
  }

 private:
  using Items = LevelPlan::Items;

  std::uint32_t& word(std::uint32_t f, std::uint32_t w) {
    return out_.fronts[std::size_t{f} * LevelPlan::kFrontWords + w];
  }
  const Front& front(std::uint32_t f) const { return plan_.fronts[old_[f]]; }
  std::uint32_t scalar(std::uint32_t column) const {
    return scalars_.empty() ? column : scalars_[column];
  }
  std::uint32_t rows(std::uint32_t f) const { return front(f).pivots + front(f).below; }

  struct Sizes;
  Sizes sizes_of(std::uint32_t f) const;
  void number_fronts();
  void divide(std::uint32_t begin, std::uint32_t end, std::uint32_t side);
  void place_fronts();
  void place_panels(std::size_t level);
  void find_most();
  void list_tiles(std::size_t level);
  void list_rows();
  void list_rows_of(std::uint32_t f);
  void list_entries();
  /// Tiles [first, end) of a front's rows or columns.
  struct Tiles {
    std::uint32_t first, end;
  };
  template <class Work>
  Items list(std::uint32_t begin, std::uint32_t end, Work work);
  void add(std::uint32_t f, std::uint32_t row, std::uint32_t column) {
    out_.items.push_back(f);
    out_.items.push_back(row | column << 16);
  }
  /// Adds those on or below the diagonal, row by row.
  void add_lower(std::uint32_t f, Tiles rows, Tiles columns);

  const FactorPlan& plan_;
  const LowerPattern& lower_;
  LevelPlan::Limits limits_;
  std::span<const std::uint32_t> positions_, scalars_;
  LevelPlan out_;
  std::vector<std::uint32_t> old_, new_;     // numbers of fronts in the plan, by number here
  std::vector<std::uint32_t> level_starts_;  // fronts of each of out_.levels
  std::uint32_t most_items_ = 0;             // of one list
};

/// From the roots on: the children of one front are neighbours, in the plan's order.
void Leveller::number_fronts() {
  const auto count = static_cast<std::uint32_t>(plan_.fronts.size());
  std::vector<std::uint32_t> all;
  std::vector<std::vector<std::uint32_t>> levels(1);
  for (std::uint32_t f = 0; f < count; ++f)
    if (plan_.fronts[f].parent == kNoFront) levels.back().push_back(f);
  while (!levels.back().empty()) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t f : levels.back())
      next.insert(next.end(), plan_.children.begin() + plan_.fronts[f].children,
                  plan_.children.begin() + plan_.fronts[f].children_end);
    levels.push_back(std::move(next));
  }
  levels.pop_back();
  std::ranges::reverse(levels);
  new_.resize(count);
  for (const std::vector<std::uint32_t>& level : levels) {
    for (const std::uint32_t f : level) {
      new_[f] = static_cast<std::uint32_t>(old_.size());
      old_.push_back(f);
    }
  }
  for (std::size_t l = 0, begin = 0; l < levels.size(); begin += levels[l++].size())
    divide(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + levels[l].size()),
           l % 2);
  level_starts_.push_back(count);
}

/// The numbers that fronts have in each kind of memory.
struct Leveller::Sizes {
  std::uint64_t panels = 0, updates = 0, children = 0, entries = 0;

  Sizes operator+(const Sizes& b) const {
    return {panels + b.panels, updates + b.updates, children + b.children, entries + b.entries};
  }
  bool within(const LevelPlan::Limits& limits) const {
    // Pieces begin at most an alignment before what they are for.
    return std::max({panels, updates, children}) + LevelPlan::kAlignment <= limits.numbers &&
           entries * LevelPlan::kEntryWords <= limits.words;
  }
};

Leveller::Sizes Leveller::sizes_of(std::uint32_t f) const {
  const Front& of = front(f);
  const auto update = [](const Front& front) {
    return std::uint64_t{front.below} * (front.below + 1) / 2;
  };
  Sizes out = {.panels = std::uint64_t{rows(f)} * of.pivots + of.pivots,
               .updates = update(of),
               .entries = of.entries_end - of.entries};
  for (std::uint32_t c = of.children; c < of.children_end; ++c)
    out.children += update(plan_.fronts[plan_.children[c]]);
  return out;
}

/// Makes one level of fronts begin ... end − 1, or several.
void Leveller::divide(std::uint32_t begin, std::uint32_t end, std::uint32_t side) {
  Sizes sizes;
  for (std::uint32_t f = begin; f < end; ++f) {
    sizes = sizes + sizes_of(f);
    if (f == begin || !sizes.within(limits_)) {
      level_starts_.push_back(f);
      out_.levels.emplace_back().side = side;
      sizes = sizes_of(f);
    }
  }
}

/// Places the panels of a level behind those before it, in a new range where they do not fit.
void Leveller::place_panels(std::size_t l) {
  Sizes sizes;
  for (std::uint32_t f = level_starts_[l]; f < level_starts_[l + 1]; ++f)
    sizes = sizes + Sizes{.panels = sizes_of(f).panels, .entries = sizes_of(f).entries};
  if (!out_.ranges.empty()) {
    const LevelPlan::Range& range = out_.ranges.back();
    const Sizes before = {.panels = out_.panels - range.panels.first,
                          .entries = range.entries.count};
    if (!(before + sizes).within(limits_)) out_.ranges.emplace_back().panels.first = out_.panels;
  } else {
    out_.ranges.emplace_back();
  }
  LevelPlan::Range& range = out_.ranges.back();
  out_.levels[l].range = static_cast<std::uint32_t>(out_.ranges.size()) - 1;
  std::uint64_t at = out_.panels - range.panels.first;
  for (std::uint32_t f = level_starts_[l]; f < level_starts_[l + 1]; ++f) {
    word(f, 0) = checked(at);
    at += sizes_of(f).panels;
  }
  checked(at);
  range.panels.count = at;
  range.entries.count += checked(sizes.entries);
  constexpr std::uint64_t kAligned = LevelPlan::kAlignment;
  out_.panels = range.panels.first + (at + kAligned - 1) / kAligned * kAligned;
}

void Leveller::place_fronts() {
  out_.fronts.resize(old_.size() * LevelPlan::kFrontWords);
  const auto piece = [](std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t first = begin / LevelPlan::kAlignment * LevelPlan::kAlignment;
    return LevelPlan::Piece{first, end - first};
  };
  std::uint64_t update = 0, child = 0;  // ends of the update matrices of this level and the last
  for (std::size_t l = 0; l < out_.levels.size(); ++l) {
    LevelPlan::Level& level = out_.levels[l];
    if (l == 0 || level.side != out_.levels[l - 1].side) {
      update = 0;
      child = 0;
    }
    const std::uint64_t first_update = update, first_child = child;
    for (std::uint32_t f = level_starts_[l]; f < level_starts_[l + 1]; ++f) {
      const Front& from = front(f);
      constexpr std::uint32_t kLargest = 65535;  // i (i + 1) and numbers of tiles are 32-bit
      if (from.below > kLargest || from.pivots > kLargest)
        throw Error(ErrorCode::Unsupported,
                    "factorisation on a device: a dense part of the factor has " +
                        std::to_string(rows(f)) + " rows, more than it takes");
      word(f, 1) = from.pivots;
      word(f, 2) = from.below;
      word(f, 3) = checked(update);
      word(f, 4) = checked(out_.vectors);
      word(f, 5) = from.first;
      if (from.children < from.children_end) {
        word(f, 6) = new_[plan_.children[from.children]];
        word(f, 7) = word(f, 6) + from.children_end - from.children;
      }
      word(f, 8) = from.rows;
      update += sizes_of(f).updates;
      child += sizes_of(f).children;
      out_.vectors += rows(f);
    }
    checked(update);
    level.updates = piece(first_update, update);
    level.children = piece(first_child, child);
    out_.updates[level.side] = std::max(out_.updates[level.side], update);
    place_panels(l);
  }
  checked(out_.vectors);
}

void Leveller::find_most() {
  for (const LevelPlan::Range& range : out_.ranges) {
    out_.most_numbers = std::max(out_.most_numbers, range.panels.count);
    out_.most_words =
        std::max(out_.most_words, std::uint64_t{range.entries.count} * LevelPlan::kEntryWords);
  }
  for (const LevelPlan::Level& level : out_.levels)
    out_.most_numbers = std::max({out_.most_numbers, level.updates.count, level.children.count});
  out_.most_numbers = std::max(out_.most_numbers, out_.vectors);
  out_.most_words = std::max({out_.most_words, std::uint64_t{most_items_} * LevelPlan::kItemWords,
                              std::uint64_t{out_.parent_rows.size()},
                              std::uint64_t{out_.cuts.size()}, std::uint64_t{out_.fronts.size()}});
}

/// Calls work(front) for fronts that add their items.
template <class Work>
LevelPlan::Items Leveller::list(std::uint32_t begin, std::uint32_t end, Work work) {
  const auto first = checked(out_.items.size() / LevelPlan::kItemWords);
  for (std::uint32_t f = begin; f < end; ++f) work(f, front(f));
  const std::uint32_t count = checked(out_.items.size() / LevelPlan::kItemWords) - first;
  most_items_ = std::max(most_items_, count);
  return {first, count};
}

void Leveller::add_lower(std::uint32_t f, Tiles rows, Tiles columns) {
  for (std::uint32_t r = rows.first; r < rows.end; ++r)
    for (std::uint32_t c = columns.first; c < std::min(r + 1, columns.end); ++c) add(f, r, c);
}

void Leveller::list_tiles(std::size_t l) {
  LevelPlan::Level& level = out_.levels[l];
  const std::uint32_t begin = level_starts_[l], end = level_starts_[l + 1];
  level.assemble = list(begin, end, [&](std::uint32_t f, const Front& of) {
    if (of.children == of.children_end) return;
    add_lower(f, {0, tiles(rows(f))}, {0, tiles(of.pivots)});
  });
  level.update = list(begin, end, [&](std::uint32_t f, const Front& of) {
    if (of.below == 0) return;
    const Tiles below{of.pivots / kFrontTile, tiles(rows(f))};
    add_lower(f, below, below);
  });
  level.gather = list(begin, end, [&](std::uint32_t f, const Front&) {
    add_lower(f, {0, tiles(rows(f))}, {0, 1});
  });
  level.below = list(begin, end, [&](std::uint32_t f, const Front& of) {
    if (of.below == 0) return;
    for (std::uint32_t c = 0; c < tiles(of.pivots); ++c) add(f, 0, c);
  });
  std::uint32_t steps = 0;
  for (std::uint32_t f = begin; f < end; ++f) steps = std::max(steps, tiles(front(f).pivots));
  for (std::uint32_t s = 0; s < steps; ++s) {
    level.panel.push_back(list(begin, end, [&](std::uint32_t f, const Front& of) {
      if (s < tiles(of.pivots)) add_lower(f, {s, tiles(rows(f))}, {s, s + 1});
    }));
    level.trailing.push_back(list(begin, end, [&](std::uint32_t f, const Front& of) {
      for (std::uint32_t c = s + 1; c < tiles(of.pivots); ++c)
        add_lower(f, {c, tiles(rows(f))}, {c, c + 1});
    }));
    level.backward.push_back(list(begin, end, [&](std::uint32_t f, const Front& of) {
      if (s < tiles(of.pivots)) add_lower(f, {s, s + 1}, {0, s + 1});
    }));
  }
}

void Leveller::list_rows() {
  out_.parent_rows.resize(plan_.rows.size());
  out_.row_scalars.resize(plan_.rows.size());
  std::uint64_t cuts = 0;
  for (std::uint32_t f = 0; f < old_.size(); ++f) {
    if (front(f).parent == kNoFront) continue;
    word(f, 9) = checked(cuts);
    cuts += tiles(rows(new_[front(f).parent])) + 1;
  }
  out_.cuts.resize(checked(cuts));
  ir::parallel_for(std::size_t{0}, old_.size(),
                   [&](std::size_t f) { list_rows_of(static_cast<std::uint32_t>(f)); });
}

void Leveller::list_rows_of(std::uint32_t f) {
  const Front& of = front(f);
  for (std::uint32_t k = of.rows; k < of.rows + of.below; ++k)
    out_.row_scalars[k] = scalar(plan_.order[plan_.rows[k]]);
  if (of.parent == kNoFront) return;
  const Front& parent = plan_.fronts[of.parent];
  std::uint32_t* cut = out_.cuts.data() + word(f, 9);
  std::uint32_t tile = 0;
  for (std::uint32_t k = 0; k < of.below; ++k) {
    const std::uint32_t padded = plan_.parent_rows[of.rows + k];
    const std::uint32_t row =
        padded < parent.pivots ? padded : padded - parent.pivot_rows() + parent.pivots;
    out_.parent_rows[of.rows + k] = row;
    for (; tile * kFrontTile <= row; ++tile) *cut++ = k;
  }
  for (; tile <= tiles(parent.pivots + parent.below); ++tile) *cut++ = of.below;
}

void Leveller::list_entries() {
  std::vector<std::uint32_t> column(lower_.rows.size());  // of each entry
  ir::parallel_for(std::uint32_t{0}, lower_.columns(), [&](std::uint32_t c) {
    for (int v = lower_.starts[c]; v < lower_.starts[c + 1]; ++v)
      column[static_cast<std::size_t>(v)] = c;
  });
  std::vector<std::uint32_t> first(old_.size());
  std::uint64_t count = 0;
  for (std::uint32_t f = 0; f < old_.size(); ++f) {
    first[f] = checked(count * LevelPlan::kEntryWords) / LevelPlan::kEntryWords;
    count += front(f).entries_end - front(f).entries;
  }
  checked(count * LevelPlan::kEntryWords);
  out_.entries.resize(count);
  ir::parallel_for(std::size_t{0}, old_.size(), [&](std::size_t k) {
    const auto f = static_cast<std::uint32_t>(k);
    const Front& of = front(f);
    LevelPlan::Entry* entry = out_.entries.data() + first[f];
    for (std::uint32_t e = of.entries; e < of.entries_end; ++e) {
      const auto [value, at] = plan_.entries[e];
      const std::uint32_t tile = at / (kTile * of.pivots), within = at % (kTile * of.pivots);
      const std::uint32_t padded = tile * kTile + within % kTile;
      const std::uint32_t row =
          padded < of.pivot_rows() ? padded : padded - of.pivot_rows() + of.pivots;
      *entry++ = {positions_.empty() ? value : positions_[value],
                  word(f, 0) + row * of.pivots + within / kTile,
                  scalar(static_cast<std::uint32_t>(lower_.rows[value])), scalar(column[value])};
    }
  });
  std::uint32_t next = 0;
  for (LevelPlan::Range& range : out_.ranges) {
    range.entries.first = next;
    next += range.entries.count;
  }
}

}  // namespace

std::uint64_t LevelPlan::words() const {
  return fronts.size() + entries.size() * kEntryWords + items.size() + parent_rows.size() +
         row_scalars.size() + cuts.size() + 2 * pivot_scalars.size();  // with the states of pivots
}

std::uint64_t LevelPlan::numbers() const {
  return panels + updates[0] + updates[1] + vectors + pivot_scalars.size() + scalars;
}

LevelPlan make_level_plan(const FactorPlan& plan, const LowerPattern& lower,
                          const LevelPlan::Limits& limits, std::span<const std::uint32_t> positions,
                          std::span<const std::uint32_t> scalars) {
  return Leveller(plan, lower, limits, positions, scalars).make();
}

}  // namespace topograd::runtime
