// Numbers blocks, reads index columns, and finds the block slots in them.
#include "term_index.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>

namespace topograd::runtime::cpu {

BlockLayout::BlockLayout(const std::vector<ParameterArray>& arrays) {
  std::uint64_t blocks = 0;
  for (const ParameterArray& a : arrays) {
    arrays_.push_back({.first = a.offset,
                       .end = a.offset + a.width * a.blocks,
                       .width = a.width,
                       .first_block = static_cast<std::uint32_t>(blocks),
                       .packed = packed_});
    blocks += a.blocks;
    packed_ += packed_size(a.width) * a.blocks;
  }
  if (blocks >= std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::InvalidArgument,
                "cpu engine: expected fewer than 4294967295 parameter "
                "blocks, got " +
                    std::to_string(blocks));
  }
  blocks_ = static_cast<std::uint32_t>(blocks);
}

const BlockLayout::Array& BlockLayout::array_of(std::uint64_t scalar) const {
  if (arrays_.size() == 1) return arrays_[0];
  const auto after = [](std::uint64_t s, const Array& a) { return s < a.first; };
  return *(std::upper_bound(arrays_.begin(), arrays_.end(), scalar, after) - 1);
}

BlockLayout::Position BlockLayout::locate(std::uint64_t scalar) const {
  const Array& a = array_of(scalar);
  const std::uint64_t within = scalar - a.first;
  return {static_cast<std::uint32_t>(a.first_block + within / a.width),
          static_cast<std::uint32_t>(within % a.width)};
}

BlockLayout::Block BlockLayout::block(std::uint32_t k) const {
  const auto after = [](std::uint32_t b, const Array& a) { return b < a.first_block; };
  const Array& a = arrays_.size() == 1
                       ? arrays_[0]
                       : *(std::upper_bound(arrays_.begin(), arrays_.end(), k, after) - 1);
  const std::uint64_t within = k - a.first_block;
  return {a.first + within * a.width, a.width, a.packed + within * packed_size(a.width)};
}

namespace {

template <class T>
void pad(Column<T>& column, std::size_t instances) {
  for (std::size_t i = instances; i < column.size(); ++i) column[i] = column[instances - 1];
}

Column<std::uint32_t> read_index_column(const ir::Batch& batch, std::uint32_t column,
                                        std::uint64_t limit, const char* what) {
  Column<std::uint32_t> values(whole_tiles(batch.size()));
  batch.copy_index_column(column, 0, std::span(values.data(), batch.size()));
  const std::uint32_t largest = *std::max_element(values.data(), values.data() + batch.size());
  if (largest >= limit) {
    throw Error(ErrorCode::InvalidArgument, "cpu engine: expected indices of " + std::string(what) +
                                                " below " + std::to_string(limit) + ", got " +
                                                std::to_string(largest));
  }
  pad(values, batch.size());
  return values;
}

// The coordinate of every scalar of the column in its block, if they are equal.
std::optional<std::uint32_t> common_coordinate(const Column<std::uint32_t>& column, std::size_t n,
                                               const BlockLayout& layout) {
  const std::uint32_t coordinate = layout.locate(column[0]).coordinate;
  for (std::size_t i = 0; i < n; ++i) {
    if (layout.locate(column[i]).coordinate != coordinate) return std::nullopt;
  }
  return coordinate;
}

class BlockSlotFinder {
 public:
  BlockSlotFinder(std::size_t instances, const BlockLayout& layout, TermIndex& index)
      : n_(instances), layout_(layout), index_(index) {}

  void add(std::uint32_t slot, Column<std::uint32_t> column) {
    // A slot joins only block slots of the block that it reads in the first instance.
    std::vector<std::size_t>& near = block_slots_of_block_[layout_.locate(column[0]).block];
    for (const std::size_t r : near) {
      if (!joins(r, column)) continue;
      BlockSlot& block_slot = index_.block_slots[r];
      distances_[r].push_back(std::int64_t{column[0]} - std::int64_t{block_slot.base[0]});
      block_slot.slots.push_back(slot);
      return;
    }
    const std::optional<std::uint32_t> coordinate = common_coordinate(column, n_, layout_);
    const Widths widths = widths_of_blocks(column);
    near.push_back(index_.block_slots.size());
    narrowest_.push_back(widths.narrowest);
    distances_.push_back({0});
    BlockSlot block_slot{.base = std::move(column), .slots = {slot}};
    block_slot.width = widths.narrowest == widths.widest ? widths.widest : 0;
    block_slot.fixed = coordinate.has_value();
    block_slot.coordinate = coordinate.value_or(0);
    index_.block_slots.push_back(std::move(block_slot));
  }

  // Moves each base to the first scalar that its slots read, so that offsets are >= 0.
  void finish() {
    for (std::uint32_t r = 0; r < index_.block_slots.size(); ++r) {
      BlockSlot& block_slot = index_.block_slots[r];
      const std::int64_t least = *std::ranges::min_element(distances_[r]);
      if (least < 0) {
        const auto back = static_cast<std::uint32_t>(-least);
        for (std::size_t i = 0; i < block_slot.base.size(); ++i) block_slot.base[i] -= back;
        block_slot.coordinate -= back;
      }
      for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
        block_slot.offsets.push_back(static_cast<std::uint32_t>(distances_[r][k] - least));
        index_.slots[block_slot.slots[k]] = {r, block_slot.offsets[k]};
      }
    }
  }

 private:
  struct Widths {
    std::uint32_t narrowest = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t widest = 0;
  };

  Widths widths_of_blocks(const Column<std::uint32_t>& column) const {
    Widths widths;
    for (std::size_t i = 0; i < n_; ++i) {
      const std::uint32_t width = layout_.width_at(column[i]);
      widths.narrowest = std::min(widths.narrowest, width);
      widths.widest = std::max(widths.widest, width);
    }
    return widths;
  }

  bool joins(std::size_t r, const Column<std::uint32_t>& column) const {
    const BlockSlot& block_slot = index_.block_slots[r];
    if (!block_slot.fixed) return false;
    const std::int64_t distance = std::int64_t{column[0]} - std::int64_t{block_slot.base[0]};
    const std::int64_t coordinate = std::int64_t{block_slot.coordinate} + distance;
    if (coordinate < 0 || coordinate >= std::int64_t{narrowest_[r]}) return false;
    for (std::size_t i = 0; i < n_; ++i) {
      if (std::int64_t{column[i]} - std::int64_t{block_slot.base[i]} != distance) return false;
    }
    return true;
  }

  std::size_t n_;
  const BlockLayout& layout_;
  TermIndex& index_;
  std::vector<std::vector<std::int64_t>> distances_;  // of slots from the base, by block slot
  std::vector<std::uint32_t> narrowest_;              // width of the narrowest block, by block slot
  // By block of the first instance, in the order of block slots.
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> block_slots_of_block_;
};

UniformSource read_uniform(const ir::Batch& batch, std::uint32_t column, std::size_t uniforms) {
  UniformSource source;
  source.column = read_index_column(batch, column, uniforms, "uniforms");
  source.position = source.column[0];
  const auto same = [&](std::uint32_t v) { return v == source.position; };
  if (std::all_of(source.column.data(), source.column.data() + batch.size(), same)) {
    source.column = {};
  }
  return source;
}

void read_rows(const ir::Batch& batch, TermIndex& index) {
  index.first_row = batch.residual_row(0);
  index.row_stride = batch.size() > 1 ? batch.residual_row(1) - index.first_row : 0;
  std::size_t i = 0;
  while (i < batch.size() && batch.residual_row(i) == index.row(i)) ++i;
  if (i == batch.size()) return;
  index.rows.resize(batch.size());
  for (i = 0; i < batch.size(); ++i) index.rows[i] = batch.residual_row(i);
}

}  // namespace

TermIndex build_index(const ir::Batch& batch, const BlockLayout& layout, std::uint64_t scalars,
                      std::size_t uniforms) {
  TermIndex index{.instances = batch.size()};
  index.slots.resize(batch.parameter_columns());
  if (batch.size() == 0) return index;
  BlockSlotFinder finder(batch.size(), layout, index);
  for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot) {
    finder.add(slot, read_index_column(batch, slot, scalars, "parameters"));
  }
  finder.finish();
  for (std::uint32_t slot = 0; slot < batch.uniform_columns(); ++slot) {
    index.uniforms.push_back(read_uniform(batch, batch.parameter_columns() + slot, uniforms));
  }
  read_rows(batch, index);
  index.block_lists = invert(index.block_slots, index.instances, layout);
  return index;
}

Windows find_windows(const TermIndex& index) {
  constexpr std::size_t kLeastOfRange = 8 * kTile, kMostRanges = 64;
  constexpr std::size_t kMostSlots = 64;  // their terms of a tile must stay in the caches
  // For each number of a window, which costs a reset and an addition.
  constexpr std::size_t kLeastTerms = 4;
  const std::size_t n = index.instances;
  if (index.slots.empty() || index.slots.size() > kMostSlots) return {};
  Windows out{.block_slots = index.block_slots.size()};
  out.per_range = whole_tiles(std::max(kLeastOfRange, (n + kMostRanges - 1) / kMostRanges));
  out.ranges = (n + out.per_range - 1) / out.per_range;
  for (std::size_t begin = 0; begin < n; begin += out.per_range) {
    const std::size_t end = std::min(n, begin + out.per_range);
    for (const BlockSlot& block_slot : index.block_slots) {
      const auto [low, high] =
          std::minmax_element(block_slot.base.data() + begin, block_slot.base.data() + end);
      const std::uint32_t farthest = *std::ranges::max_element(block_slot.offsets);
      out.windows.push_back({*low, *high - *low + farthest + 1, out.numbers()});
    }
  }
  if (kLeastTerms * out.numbers() > n * index.slots.size()) return {};
  return out;
}

template <class T>
Column<T> read_data_column(const ir::Batch& batch, std::uint32_t column) {
  Column<T> values(whole_tiles(batch.size()));
  constexpr std::size_t kPiece = ir::Batch::kBlockRows;
  std::vector<double> piece(std::min(kPiece, batch.size()));
  for (std::size_t first = 0; first < batch.size(); first += kPiece) {
    const std::size_t n = std::min(kPiece, batch.size() - first);
    batch.copy_data_column(column, first, std::span(piece).first(n));
    for (std::size_t i = 0; i < n; ++i) values[first + i] = static_cast<T>(piece[i]);
  }
  if (batch.size() > 0) pad(values, batch.size());
  return values;
}

template Column<float> read_data_column<float>(const ir::Batch&, std::uint32_t);
template Column<double> read_data_column<double>(const ir::Batch&, std::uint32_t);

namespace {

struct Range {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t end = 0;
};

Range touched_blocks(std::span<const BlockSlot> block_slots, std::size_t instances,
                     const BlockLayout& layout) {
  Range range;
  for (const BlockSlot& block_slot : block_slots) {
    const auto [low, high] =
        std::minmax_element(block_slot.base.data(), block_slot.base.data() + instances);
    range.first = std::min(range.first, layout.locate(*low).block);
    range.end = std::max(range.end, layout.locate(*high).block + 1);
  }
  return range;
}

// Calls f(block, entry) for all entries, by instance and then by block slot.
template <class F>
void for_entries(std::span<const BlockSlot> block_slots, std::size_t instances,
                 const BlockLayout& layout, std::uint32_t block_slot_bits, F f) {
  for (std::uint32_t i = 0; i < instances; ++i) {
    for (std::uint32_t r = 0; r < block_slots.size(); ++r) {
      f(layout.locate(block_slots[r].base[i]).block, (i << block_slot_bits) | r);
    }
  }
}

// Counting sort over the range of blocks; cost: entries + range.
void sort_by_counting(BlockLists& lists, std::span<const BlockSlot> block_slots,
                      std::size_t instances, const BlockLayout& layout, Range range) {
  std::vector<std::uint32_t> next(range.end - range.first + 1);
  for_entries(block_slots, instances, layout, lists.block_slot_bits,
              [&](std::uint32_t block, std::uint32_t) { ++next[block - range.first + 1]; });
  for (std::size_t k = 1; k < next.size(); ++k) {
    if (next[k] != 0) {
      lists.blocks.push_back(static_cast<std::uint32_t>(range.first + k - 1));
      lists.starts.push_back(next[k - 1]);
    }
    next[k] += next[k - 1];
  }
  lists.starts.push_back(next.back());
  for_entries(block_slots, instances, layout, lists.block_slot_bits,
              [&](std::uint32_t block, std::uint32_t entry) {
                lists.entries[next[block - range.first]++] = entry;
              });
}

// For few entries spread over many blocks.
void sort_by_comparing(BlockLists& lists, std::span<const BlockSlot> block_slots,
                       std::size_t instances, const BlockLayout& layout) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for_entries(block_slots, instances, layout, lists.block_slot_bits,
              [&](std::uint32_t block, std::uint32_t entry) { pairs.emplace_back(block, entry); });
  std::sort(pairs.begin(), pairs.end());
  for (std::uint32_t k = 0; k < pairs.size(); ++k) {
    if (k == 0 || pairs[k].first != pairs[k - 1].first) {
      lists.blocks.push_back(pairs[k].first);
      lists.starts.push_back(k);
    }
    lists.entries[k] = pairs[k].second;
  }
  lists.starts.push_back(static_cast<std::uint32_t>(pairs.size()));
}

bool has_aliases(const BlockLists& lists) {
  for (std::size_t k = 0; k < lists.blocks.size(); ++k) {
    for (std::uint32_t e = lists.starts[k] + 1; e < lists.starts[k + 1]; ++e) {
      if (lists.instance(lists.entries[e]) == lists.instance(lists.entries[e - 1])) return true;
    }
  }
  return false;
}

std::vector<ListSegment> segments_of_long_lists(const BlockLists& lists) {
  std::vector<ListSegment> segments;
  const auto continues = [&](std::uint32_t e) {
    return lists.instance(lists.entries[e]) == lists.instance(lists.entries[e - 1]);
  };
  for (std::uint32_t k = 0; k < lists.blocks.size(); ++k) {
    const std::uint32_t end = lists.starts[k + 1];
    if (end - lists.starts[k] <= kLongList) continue;
    for (std::uint32_t begin = lists.starts[k]; begin < end;) {
      std::uint32_t next = std::min(end, begin + kLongList);
      while (next < end && continues(next)) ++next;
      segments.push_back({k, begin, next});
      begin = next;
    }
  }
  return segments;
}

}  // namespace

BlockLists invert(std::span<const BlockSlot> block_slots, std::size_t instances,
                  const BlockLayout& layout) {
  BlockLists lists;
  lists.starts.reserve(1);
  if (instances == 0 || block_slots.empty()) {
    lists.starts.push_back(0);
    return lists;
  }
  lists.block_slot_bits = static_cast<std::uint32_t>(std::bit_width(block_slots.size() - 1));
  const std::uint64_t largest = std::uint64_t{instances} << lists.block_slot_bits;
  if (largest > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(
        ErrorCode::InvalidArgument,
        "cpu engine: expected at most " +
            std::to_string(std::numeric_limits<std::uint32_t>::max() >> lists.block_slot_bits) +
            " instances of a residual that touches " + std::to_string(block_slots.size()) +
            " blocks, got " + std::to_string(instances));
  }
  const std::size_t entries = instances * block_slots.size();
  lists.entries = Column<std::uint32_t>(entries);
  const Range range = touched_blocks(block_slots, instances, layout);
  constexpr std::size_t kSparse = 16;  // blocks per entry from which comparing is cheaper
  if ((range.end - range.first) / kSparse > entries) {
    sort_by_comparing(lists, block_slots, instances, layout);
  } else {
    sort_by_counting(lists, block_slots, instances, layout, range);
  }
  lists.segments = segments_of_long_lists(lists);
  lists.aliased = block_slots.size() > 1 && has_aliases(lists);
  return lists;
}

}  // namespace topograd::runtime::cpu
