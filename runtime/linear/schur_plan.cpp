// Planning of a Schur complement: meetings of blocks, directly and through eliminated blocks.
#include "schur_plan.hpp"

#include "../../codegen/vector/kernels.hpp"
#include "../model/model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

namespace topograd::runtime {
namespace {

/// Number of products that one invocation sums: a camera's diagonal block has a thousand of them.
constexpr std::size_t kProductsOfPiece = 32;

using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // rows, columns, inner

std::uint32_t narrow(std::size_t value) { return static_cast<std::uint32_t>(value); }

class SchurPlanner {
 public:
  SchurPlanner(const Model& model, std::span<const std::uint8_t> scalars,
               std::span<const std::vector<SlotGroup>> groups)
      : model_(model), scalars_(scalars), groups_(groups), numbers_(model.arrays) {}

  SchurPlan make() {
    number_blocks();
    for (std::size_t t = 0; t < model_.terms.size() && plan_.possible(); ++t) {
      if (!model_.terms[t].energy) find_meetings(t);
    }
    if (!plan_.possible()) return std::move(plan_);
    place_meetings();
    list_products();
    list_couplings();
    if (!plan_.possible()) return std::move(plan_);
    for (std::uint32_t k = 0; k < plan_.kept.size(); ++k) add_row(k);
    list_pieces();
    place_rows();
    if (plan_.possible()) list_blocks();
    return std::move(plan_);
  }

 private:
  enum class Kind : std::uint8_t { none, kept, eliminated };
  struct Kept {
    std::uint32_t width = 0, position = 0, packed = 0;
  };
  struct Eliminated {
    std::uint32_t width = 0, in_width = 0;  // number among those of its width
  };
  struct Met {  // two blocks in an instance; an eliminated one comes first in the key
    std::uint64_t key = 0;
    std::uint32_t term = 0, instance = 0, block_slots = 0;
    friend auto operator<=>(const Met&, const Met&) = default;
  };
  struct Meeting {
    std::uint32_t row = 0, column = 0;  // kept; eliminated or kept
    std::uint32_t values = 0;
    std::size_t first = 0, last = 0;  // of met_
  };
  struct Product {  // of two meetings of an eliminated block
    std::uint32_t row = 0, left = 0, right = 0, inner = 0;
  };
  struct Piece {
    std::size_t first = 0, last = 0;  // of products_
    std::uint32_t values = 0;
  };
  struct Block {
    std::uint32_t row = 0, column = 0, meeting = SchurPlan::kNone;
    std::vector<std::uint32_t> pieces;
  };

  std::uint32_t columns_of(std::size_t m) const {
    return m < couplings_ ? eliminated_[meetings_[m].column].width
                          : kept_[meetings_[m].column].width;
  }

  void number_blocks();
  void list_of(std::map<std::uint32_t, std::vector<std::uint32_t>>& by_width, bool kept);
  void find_meetings(std::size_t t);
  void meet(std::size_t t, std::uint32_t instance, std::uint32_t g, std::uint32_t h,
            std::uint32_t a, std::uint32_t b);
  void place_meetings();
  void list_products();
  void list_couplings();
  void add_row(std::uint32_t k);
  void add_block(std::uint32_t k, std::uint32_t other, std::span<const Product> products);
  void list_pieces();
  void place_rows();
  void list_blocks();

  const Model& model_;
  std::span<const std::uint8_t> scalars_;
  std::span<const std::vector<SlotGroup>> groups_;
  BlockNumbers numbers_;
  SchurPlan plan_;
  std::vector<Kind> kind_;             // by block of the model
  std::vector<std::uint32_t> number_;  // by block of the model: number among those of its kind
  std::vector<Kept> kept_;
  std::vector<Eliminated> eliminated_;
  std::vector<Met> met_;
  std::vector<Meeting> meetings_;
  std::size_t couplings_ = 0;                   // the first ones belong to eliminated blocks
  std::vector<std::vector<std::uint32_t>> of_;  // by kept block: its couplings
  std::vector<std::uint32_t> later_;            // by kept block: its first meeting with a later one
  std::vector<Product> products_;
  std::map<Shape, std::vector<Piece>> pieces_;
  std::map<Shape, std::vector<Block>> blocks_;
  std::vector<std::vector<std::uint32_t>> row_;  // by kept block: others that it meets in S
};

void SchurPlanner::list_of(std::map<std::uint32_t, std::vector<std::uint32_t>>& by_width,
                           bool kept) {
  auto& list = kept ? plan_.kept : plan_.eliminated;
  std::uint32_t position = 0, packed = 0;
  for (const auto& [width, blocks] : by_width) {
    const std::uint32_t triangle = width * (width + 1) / 2, count = narrow(blocks.size());
    (kept ? plan_.kept_widths : plan_.eliminated_widths)
        .push_back({width, narrow(list.size()), count, kept ? position : 0, packed});
    for (std::uint32_t b = 0; b < count; ++b) {
      number_[numbers_.at(blocks[b])] = narrow(list.size());
      list.push_back(blocks[b]);
      if (!kept) {
        eliminated_.push_back({width, b});
        continue;
      }
      kept_.push_back({width, position, packed + b * triangle});
      for (std::uint32_t k = 0; k < width; ++k) plan_.kept_scalar.push_back(blocks[b] + k);
      position += width;
    }
    packed += count * triangle;
  }
  (kept ? plan_.packed : plan_.inverses) = packed;
}

void SchurPlanner::number_blocks() {
  kind_.assign(numbers_.count(), Kind::none);
  number_.assign(numbers_.count(), 0);
  std::map<std::uint32_t, std::vector<std::uint32_t>> kept, eliminated;
  std::uint32_t block = 0;
  for (const ParameterArray& array : model_.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++block) {
      const std::size_t first = array.offset + b * array.width;
      const auto all_of = [&](const auto& flags) {
        return std::ranges::all_of(flags.subspan(first, array.width),
                                   [](std::uint8_t flag) { return flag != 0; });
      };
      if (all_of(scalars_)) {
        kind_[block] = Kind::eliminated;
        eliminated[array.width].push_back(narrow(first));
      } else if (model_.constant.empty() || !all_of(std::span(model_.constant))) {
        kind_[block] = Kind::kept;
        kept[array.width].push_back(narrow(first));
      } else {
        continue;
      }
      if (array.width > codegen::kMaxBlockWidth)
        plan_.why = because(MatrixReason::wide_block, array.width);
    }
  }
  list_of(kept, true);
  list_of(eliminated, false);
  if (plan_.eliminated.empty() || plan_.kept.empty())
    plan_.why = {MatrixReason::nothing_to_eliminate};
}

void SchurPlanner::find_meetings(std::size_t t) {
  const ir::Batch& batch = *model_.terms[t].batch;
  const std::vector<SlotGroup>& groups = groups_[t];
  std::vector<std::vector<std::uint32_t>> blocks(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].array == kScalars) {
      plan_.why = {MatrixReason::unlike_order};
      return;
    }
    blocks[g].resize(batch.size());
    batch.copy_index_column(groups[g].slots.front(), 0, blocks[g]);
    for (std::uint32_t& b : blocks[g]) b = numbers_.of(groups[g].array, b);
  }
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      for (std::uint32_t h = g + 1; h < groups.size(); ++h)
        meet(t, i, g, h, blocks[g][i], blocks[h][i]);
    }
  }
}

void SchurPlanner::meet(std::size_t t, std::uint32_t instance, std::uint32_t g, std::uint32_t h,
                        std::uint32_t a, std::uint32_t b) {
  if (kind_[a] == Kind::none || kind_[b] == Kind::none) return;
  if (a == b) plan_.why = {MatrixReason::block_twice};
  if (kind_[a] == Kind::eliminated && kind_[b] == Kind::eliminated)
    plan_.why = {MatrixReason::eliminated_meet};
  const bool swap =
      kind_[a] == Kind::eliminated || (kind_[b] == Kind::kept && number_[b] < number_[a]);
  if (swap) {
    std::swap(a, b);
    std::swap(g, h);
  }
  const std::uint64_t row = number_[a], column = number_[b];
  const std::uint64_t key = kind_[b] == Kind::eliminated
                                ? column << 32 | row
                                : (plan_.eliminated.size() + row) << 32 | column;
  met_.push_back({key, narrow(t), instance, g | h << 16});
}

void SchurPlanner::place_meetings() {
  std::sort(met_.begin(), met_.end());
  for (std::size_t first = 0, last = 0; first < met_.size(); first = last) {
    while (last < met_.size() && met_[last].key == met_[first].key) ++last;
    const std::uint32_t high = narrow(met_[first].key >> 32), low = narrow(met_[first].key);
    const bool coupling = high < plan_.eliminated.size();
    couplings_ += coupling ? 1 : 0;
    const std::uint32_t row = coupling ? low : high - narrow(plan_.eliminated.size());
    meetings_.push_back({row, coupling ? high : low, narrow(plan_.meeting_values), first, last});
    plan_.meeting_values += kept_[row].width * columns_of(meetings_.size() - 1);
  }
}

/// Lists the contributions of each term, one shape of meetings after the other.
void SchurPlanner::list_products() {
  struct Part {  // of a meeting, by one term
    std::size_t meeting = 0, first = 0, last = 0;
  };
  std::map<std::uint32_t, std::map<Shape, std::vector<Part>>> terms;
  for (std::size_t m = 0; m < meetings_.size(); ++m) {
    const Shape shape(kept_[meetings_[m].row].width, columns_of(m), 0);
    for (std::size_t k = meetings_[m].first; k < meetings_[m].last; ++k) {
      std::vector<Part>& parts = terms[met_[k].term][shape];
      if (k == meetings_[m].first || met_[k].term != met_[k - 1].term) parts.push_back({m, k, k});
      ++parts.back().last;
    }
  }
  const auto outputs_of = [&](const Part& part) {
    const Meeting& meeting = meetings_[part.meeting];
    const auto& firsts = part.meeting < couplings_ ? plan_.eliminated : plan_.kept;
    return std::array{meeting.values, plan_.kept[meeting.row], firsts[meeting.column]};
  };
  const auto pairs_of = [&](const Part& part) {
    return std::span(met_).subspan(part.first, part.last - part.first);
  };
  for (const auto& [term, shapes] : terms) {
    BlockProducts& out = plan_.products.emplace_back(BlockProducts{.term = term});
    for (const auto& [shape, parts] : shapes)
      out.add(std::get<0>(shape), std::get<1>(shape), parts, outputs_of, pairs_of);
    out.end();
  }
}

/// Lists the couplings by eliminated block, by kept block, and by shape.
void SchurPlanner::list_couplings() {
  std::map<Shape, std::vector<std::size_t>> shapes;
  of_.resize(plan_.kept.size());
  plan_.back_starts.assign(plan_.eliminated.size() + 1, 0);
  for (std::size_t m = 0; m < couplings_; ++m) {
    const Meeting& meeting = meetings_[m];
    shapes[{kept_[meeting.row].width, columns_of(m), 0}].push_back(m);
    of_[meeting.row].push_back(narrow(m));
    ++plan_.back_starts[meeting.column + 1];
    plan_.back_entries.insert(
        plan_.back_entries.end(),
        {meeting.values, kept_[meeting.row].position, kept_[meeting.row].width});
  }
  for (std::size_t e = 0; e < plan_.eliminated.size(); ++e) {
    const std::uint64_t met = plan_.back_starts[e + 1];
    plan_.total_products += met * (met + 1) / 2;
    plan_.back_starts[e + 1] += plan_.back_starts[e];
  }
  if (plan_.total_products > kMostSchurProducts || plan_.meeting_values > SchurPlan::kNone)
    plan_.why = because(MatrixReason::many_products, plan_.total_products);
  for (const auto& [shape, list] : shapes) {
    const auto& [rows, columns, inner] = shape;
    plan_.couplings.push_back(
        {rows, columns, inner, narrow(plan_.coupling_words.size() / 2), narrow(list.size())});
    for (const std::size_t m : list)
      plan_.coupling_words.insert(plan_.coupling_words.end(),
                                  {meetings_[m].values, eliminated_[meetings_[m].column].in_width});
  }
  plan_.row_starts.push_back(0);
  for (const std::vector<std::uint32_t>& list : of_) {
    for (const std::uint32_t m : list)
      plan_.row_entries.insert(
          plan_.row_entries.end(),
          {meetings_[m].values, plan_.eliminated[meetings_[m].column], columns_of(m)});
    plan_.row_starts.push_back(narrow(plan_.row_entries.size() / 3));
  }
  row_.resize(plan_.kept.size());
  plan_.complement = BlockRows(plan_.kept.size());
  later_.assign(plan_.kept.size() + 1, narrow(meetings_.size()));
  for (std::size_t m = meetings_.size(); m-- > couplings_;) later_[meetings_[m].row] = narrow(m);
  for (std::size_t k = plan_.kept.size(); k-- > 0;) later_[k] = std::min(later_[k], later_[k + 1]);
}

/// Adds the blocks of S in the row of kept block k, from the diagonal on.
void SchurPlanner::add_row(std::uint32_t k) {
  std::vector<Product> products;
  for (const std::uint32_t left : of_[k]) {
    const std::uint32_t e = meetings_[left].column;
    for (std::uint32_t right = left; right < plan_.back_starts[e + 1]; ++right)
      products.push_back({meetings_[right].row, meetings_[left].values, meetings_[right].values,
                          eliminated_[e].width});
  }
  std::ranges::stable_sort(products, {}, &Product::row);
  std::vector<std::uint32_t> others{k};
  for (const Product& product : products) others.push_back(product.row);
  for (std::uint32_t m = later_[k]; m < later_[k + 1]; ++m) others.push_back(meetings_[m].column);
  std::ranges::sort(others);
  others.erase(std::unique(others.begin(), others.end()), others.end());
  auto next = products.begin();
  for (const std::uint32_t other : others) {
    const auto first = next;
    while (next != products.end() && next->row == other) ++next;
    add_block(k, other, {first, next});
  }
}

void SchurPlanner::add_block(std::uint32_t k, std::uint32_t other,
                             std::span<const Product> products) {
  const std::uint32_t rows = kept_[k].width, columns = kept_[other].width;
  Block block{.row = k, .column = other};
  plan_.complement.add(k, other, columns);
  if (other != k) {
    row_[k].push_back(other);
    row_[other].push_back(k);
    plan_.complement.add(other, k, rows);
  }
  const auto met = std::lower_bound(
      meetings_.begin() + later_[k], meetings_.begin() + later_[k + 1], other,
      [](const Meeting& meeting, std::uint32_t column) { return meeting.column < column; });
  if (met != meetings_.begin() + later_[k + 1] && met->column == other) block.meeting = met->values;
  for (std::size_t first = 0, last = 0; first < products.size(); first = last) {
    while (last < products.size() && last - first < kProductsOfPiece &&
           products[last].inner == products[first].inner) {
      ++last;
    }
    pieces_[{rows, columns, products[first].inner}].push_back(
        {products_.size() + first, products_.size() + last, narrow(plan_.piece_values)});
    block.pieces.push_back(narrow(plan_.piece_values));
    plan_.piece_values += std::uint64_t{rows} * columns;
  }
  products_.insert(products_.end(), products.begin(), products.end());
  blocks_[{rows, columns, 0}].push_back(std::move(block));
}

void SchurPlanner::list_pieces() {
  for (const auto& [shape, list] : pieces_) {
    const auto& [rows, columns, inner] = shape;
    plan_.pieces.push_back(
        {rows, columns, inner, narrow(plan_.piece_outputs.size()), narrow(list.size())});
    for (const Piece& piece : list) {
      plan_.piece_starts.push_back(narrow(plan_.piece_entries.size() / 2));
      plan_.piece_outputs.push_back(piece.values);
      for (std::size_t k = piece.first; k < piece.last; ++k)
        plan_.piece_entries.insert(plan_.piece_entries.end(),
                                   {products_[k].left, products_[k].right});
    }
  }
  plan_.piece_starts.push_back(narrow(plan_.piece_entries.size() / 2));
  if (plan_.piece_values > SchurPlan::kNone) plan_.why = {MatrixReason::memory_of_pieces};
}

void SchurPlanner::place_rows() {
  if (!plan_.complement.place([&](std::uint32_t k) { return kept_[k].width; }))
    return void(plan_.why = {MatrixReason::memory_of_complement});
  for (std::uint32_t k = 0; k < plan_.kept.size(); ++k) {
    plan_.complement.list(k, kept_[k].position, kept_[k].width, [&](const auto& add) {
      for (const std::uint32_t other : row_[k]) add(kept_[other].position, kept_[other].width);
    });
  }
}

void SchurPlanner::list_blocks() {
  for (const auto& [shape, list] : blocks_) {
    const auto& [rows, columns, inner] = shape;
    plan_.blocks.push_back(
        {rows, columns, inner, narrow(plan_.block_starts.size()), narrow(list.size())});
    for (const Block& block : list) {
      const bool diagonal = block.row == block.column;
      const auto location = plan_.complement.location(block.row, block.column);
      plan_.block_words.push_back(block.meeting);
      plan_.block_words.insert(plan_.block_words.end(), location.begin(), location.end());
      plan_.block_words.insert(
          plan_.block_words.end(),
          {diagonal ? plan_.kept[block.row] : SchurPlan::kNone, kept_[block.row].packed});
      plan_.block_starts.push_back(narrow(plan_.block_pieces.size()));
      plan_.block_pieces.insert(plan_.block_pieces.end(), block.pieces.begin(), block.pieces.end());
    }
  }
  plan_.block_starts.push_back(narrow(plan_.block_pieces.size()));
}

}  // namespace

SchurPlan plan_schur(const Model& model, std::span<const std::uint8_t> scalars,
                     std::span<const std::vector<SlotGroup>> groups) {
  return SchurPlanner(model, scalars, groups).make();
}

}  // namespace topograd::runtime
