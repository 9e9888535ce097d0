// Numbers fronts by level, places their panels and update matrices, and lists their tiles.
#include "level_plan.hpp"

#include "../../ir/error.hpp"

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
  Leveller(const FactorPlan& plan, const LowerPattern& lower,
           std::span<const std::uint32_t> positions, std::span<const std::uint32_t> scalars)
      : plan_(plan), lower_(lower), positions_(positions), scalars_(scalars) {}

  LevelPlan make() {
    number_fronts();
    place_fronts();
    for (std::size_t l = 0; l < out_.levels.size(); ++l) list_tiles(l);
    list_rows();
    list_entries();
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

  void number_fronts();
  void place_fronts();
  void list_tiles(std::size_t level);
  void list_rows();
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
  std::span<const std::uint32_t> positions_, scalars_;
  LevelPlan out_;
  std::vector<std::uint32_t> old_, new_;     // numbers of fronts in the plan, by number here
  std::vector<std::uint32_t> level_starts_;  // fronts of each level
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
    level_starts_.push_back(static_cast<std::uint32_t>(old_.size()));
    for (const std::uint32_t f : level) {
      new_[f] = static_cast<std::uint32_t>(old_.size());
      old_.push_back(f);
    }
  }
  level_starts_.push_back(count);
  out_.levels.resize(levels.size());
}

void Leveller::place_fronts() {
  out_.fronts.resize(old_.size() * LevelPlan::kFrontWords);
  for (std::size_t l = 0; l < out_.levels.size(); ++l) {
    LevelPlan::Level& level = out_.levels[l];
    std::uint64_t update = 0;
    level.panels = out_.panels;
    for (std::uint32_t f = level_starts_[l]; f < level_starts_[l + 1]; ++f) {
      const Front& from = front(f);
      constexpr std::uint32_t kLargest = 65535;  // i (i + 1) and numbers of tiles are 32-bit
      if (from.below > kLargest || from.pivots > kLargest)
        throw Error(ErrorCode::Unsupported,
                    "factorisation on a device: a dense part of the factor has " +
                        std::to_string(rows(f)) + " rows, more than it takes");
      word(f, 0) = checked(level.panels_size);
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
      level.panels_size += std::uint64_t{rows(f)} * from.pivots + from.pivots;
      update += std::uint64_t{from.below} * (from.below + 1) / 2;
      out_.vectors += rows(f);
    }
    checked(level.panels_size);
    checked(update);
    out_.updates[l % 2] = std::max(out_.updates[l % 2], update);
    out_.largest_level = std::max(out_.largest_level, level.panels_size);
    constexpr std::uint64_t kAligned = LevelPlan::kPanelAlignment;
    out_.panels += (level.panels_size + kAligned - 1) / kAligned * kAligned;
  }
  checked(out_.vectors);
}

/// Calls work(front) for fronts that add their items.
template <class Work>
LevelPlan::Items Leveller::list(std::uint32_t begin, std::uint32_t end, Work work) {
  const auto first = checked(out_.items.size() / LevelPlan::kItemWords);
  for (std::uint32_t f = begin; f < end; ++f) work(f, front(f));
  return {first, checked(out_.items.size() / LevelPlan::kItemWords) - first};
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
  out_.places.resize(plan_.rows.size());
  out_.row_scalars.resize(plan_.rows.size());
  for (std::uint32_t f = 0; f < old_.size(); ++f) {
    const Front& of = front(f);
    for (std::uint32_t k = of.rows; k < of.rows + of.below; ++k)
      out_.row_scalars[k] = scalar(plan_.order[plan_.rows[k]]);
    if (of.parent == kNoFront) continue;
    const Front& parent = plan_.fronts[of.parent];
    word(f, 9) = checked(out_.cuts.size());
    std::uint32_t tile = 0;
    for (std::uint32_t k = 0; k < of.below; ++k) {
      const std::uint32_t padded = plan_.places[of.rows + k];
      const std::uint32_t place =
          padded < parent.pivots ? padded : padded - parent.pivot_rows() + parent.pivots;
      out_.places[of.rows + k] = place;
      for (; tile * kFrontTile <= place; ++tile) out_.cuts.push_back(k);
    }
    for (; tile <= tiles(parent.pivots + parent.below); ++tile) out_.cuts.push_back(of.below);
  }
}

void Leveller::list_entries() {
  std::vector<std::uint32_t> column(lower_.rows.size());  // of each entry
  for (std::uint32_t c = 0; c < lower_.columns(); ++c)
    for (int v = lower_.starts[c]; v < lower_.starts[c + 1]; ++v)
      column[static_cast<std::size_t>(v)] = c;
  out_.entries.reserve(plan_.entries.size() * LevelPlan::kEntryWords);
  for (std::size_t l = 0; l < out_.levels.size(); ++l) {
    LevelPlan::Level& level = out_.levels[l];
    level.entries = checked(out_.entries.size() / LevelPlan::kEntryWords);
    for (std::uint32_t f = level_starts_[l]; f < level_starts_[l + 1]; ++f) {
      const Front& of = front(f);
      for (std::uint32_t e = of.entries; e < of.entries_end; ++e) {
        const auto [value, at] = plan_.entries[e];
        const std::uint32_t tile = at / (kTile * of.pivots), within = at % (kTile * of.pivots);
        const std::uint32_t padded = tile * kTile + within % kTile;
        const std::uint32_t row =
            padded < of.pivot_rows() ? padded : padded - of.pivot_rows() + of.pivots;
        out_.entries.insert(
            out_.entries.end(),
            {positions_.empty() ? value : positions_[value],
             word(f, 0) + row * of.pivots + within / kTile,
             scalar(static_cast<std::uint32_t>(lower_.rows[value])), scalar(column[value])});
      }
    }
    level.entries_count = checked(out_.entries.size() / LevelPlan::kEntryWords) - level.entries;
  }
}

}  // namespace

std::uint64_t LevelPlan::words() const {
  return fronts.size() + entries.size() + items.size() + places.size() + row_scalars.size() +
         cuts.size() + 2 * pivot_scalars.size();  // with the states of pivots
}

std::uint64_t LevelPlan::numbers() const {
  return panels + updates[0] + updates[1] + vectors + pivot_scalars.size() + scalars;
}

LevelPlan make_level_plan(const FactorPlan& plan, const LowerPattern& lower,
                          std::span<const std::uint32_t> positions,
                          std::span<const std::uint32_t> scalars) {
  return Leveller(plan, lower, positions, scalars).make();
}

}  // namespace topograd::runtime
