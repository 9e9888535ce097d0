// The stored linearisation of one batch: r and J in columns, J·p and Jᵀu from them.
#include "linear_term.hpp"

#include "../tiles/column.hpp"
#include "term_costs.hpp"

#include <map>

namespace topograd::runtime::cpu {
namespace {

/// Instances whose Jacobians are copied together, so that those of most terms stay in the cache of
/// a core until all of their entries are written.
constexpr std::size_t kInstancesOfCopy = 32;

}  // namespace

template <class T>
void LinearTerm<T>::linearize(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  term_->run_to_columns(pool, workers, Part::Linear, v, {}, linear_);
}

template <class T>
std::vector<Stored<T>> LinearTerm<T>::stored_residuals() const {
  const Kernel<T>& linear = term_->kernel(Part::Linear);
  std::vector<Stored<T>> residuals;
  for (std::size_t row = 0; row < term_->rows(); ++row) {
    residuals.push_back(term_->stored(linear.sources[row], linear_));
  }
  return residuals;
}

template <class T>
StoredJacobian<T> LinearTerm<T>::stored_jacobian() const {
  const Kernel<T>& linear = term_->kernel(Part::Linear);
  StoredJacobian<T> jacobian{.rows = term_->rows(), .columns = term_->slots()};
  for (std::size_t k = term_->rows(); k < linear.sources.size(); ++k) {
    jacobian.entries.push_back(term_->stored(linear.sources[k], linear_));
  }
  return jacobian;
}

// Jᵀ times rows, by block slot.
template <class T>
Products<T> LinearTerm<T>::products_with(std::span<const Stored<T>> rows) const {
  const StoredJacobian<T> jacobian = stored_jacobian();
  Products<T> products(index().block_slots.size());
  for (std::size_t r = 0; r < products.size(); ++r) {
    const BlockSlot& block_slot = index().block_slots[r];
    for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const Stored<T>& entry = jacobian.at(row, block_slot.slots[k]);
        const double scale = entry.scale * rows[row].scale;
        if (scale == 0) continue;
        products[r].push_back(
            {entry.column, rows[row].column, scale, block_slot.coordinate + block_slot.offsets[k]});
      }
    }
  }
  return products;
}

template <class T>
void LinearTerm<T>::add_gradient(Pool& pool, const BlockLayout& layout, T* out) const {
  const TimedPass time = term_->timed("gather");
  add_to_vector(pool, index(), layout, products_with(stored_residuals()), out);
}

template <class T>
void LinearTerm<T>::add_blocks(Pool& pool, const BlockLayout& layout, T* out) const {
  const TimedPass time = term_->timed("blocks");
  add_diagonal_blocks(pool, index(), layout, stored_jacobian(), out);
}

template <class T>
void LinearTerm<T>::add_diagonal(Pool& pool, const BlockLayout& layout, T* out) const {
  const TimedPass time = term_->timed("diagonal");
  cpu::add_diagonal(pool, index(), layout, stored_jacobian(), out);
}

template <class T>
void LinearTerm<T>::copy_jacobian(Pool& pool, const std::vector<std::uint8_t>& constant,
                                  std::span<double> out) const {
  const TimedPass time = term_->timed("jacobian_copy");
  const StoredJacobian<T> jacobian = stored_jacobian();
  const std::size_t entries = jacobian.entries.size();
  pool.for_ranges(index().instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += kInstancesOfCopy) {
      const std::size_t last = std::min(first + kInstancesOfCopy, end);
      for (std::size_t entry = 0; entry < entries; ++entry) {
        const Stored<T>& from = jacobian.entries[entry];
        double* to = out.data() + first * entries + entry;
        for (std::size_t i = first; i < last; ++i, to += entries)
          *to = from.column == nullptr ? from.scale : from.scale * double{from.column[i]};
      }
    }
    if (!constant.empty()) clear_constant(constant, begin, end, jacobian.rows, out);
  });
}

/// Clears the columns of constant scalars in Jacobians of instances begin .. end − 1.
template <class T>
void LinearTerm<T>::clear_constant(const std::vector<std::uint8_t>& constant, std::size_t begin,
                                   std::size_t end, std::size_t rows, std::span<double> out) const {
  const std::size_t entries = rows * term_->slots();
  for (std::size_t slot = 0; slot < term_->slots(); ++slot) {
    const SlotSource& source = index().slots[slot];
    for (std::size_t i = begin; i < end; ++i) {
      if (constant[index().block_slots[source.block_slot].base[i] + source.offset] == 0) continue;
      for (std::size_t row = 0; row < rows; ++row)
        out[i * entries + row * term_->slots() + slot] = 0;
    }
  }
}

template <class T>
void LinearTerm<T>::apply(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  term_->run_to_columns(pool, workers, Part::ApplyLinear, {v.p, v.p, v.uniforms}, linear_,
                        applied_);
}

template <class T>
void LinearTerm<T>::add_jtjp(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                             const BlockLayout& layout, std::size_t scalars, bool by_block,
                             T* out) {
  if (index().instances == 0) return;
  if (!by_block && !windows_) windows_.emplace(index());
  if (by_block || !windows_->pay()) {
    apply(pool, workers, v);
    const TimedPass time = term_->timed("gather");
    add_to_vector(pool, index(), layout, products_with(applied_rows()), out);
    return;
  }
  const TimedPass time = term_->timed(Part::JtjpLinear);
  const TileKernel<T>& tile = term_->kernel(Part::JtjpLinear).tile;
  const Binding<T> binding = term_->bind(tile, {v.p, v.p, v.uniforms}, linear_);
  const auto run = [&](std::size_t first, std::size_t n) {
    Worker<T>& worker = workers.local();
    worker.run(tile, binding, first, n);
    return [&worker](std::size_t slot) { return worker.output(slot); };
  };
  windows_->add(pool, scalars, run, out);
}

namespace {

/// Lists of blocks by width, the long ones in their segments.
std::vector<ListedWidth> lists_by_width(const BlockLists& lists, const BlockLayout& layout) {
  std::map<std::uint32_t, ListedWidth> by_width;
  const auto of = [&](const BlockLayout::Block& block) -> ListedWidth& {
    ListedWidth& width = by_width[block.width];
    width.width = block.width;
    return width;
  };
  for (std::size_t k = 0; k < lists.blocks.size(); ++k) {
    if (lists.starts[k + 1] - lists.starts[k] > kLongList) continue;
    const BlockLayout::Block block = layout.block(lists.blocks[k]);
    of(block).lists.push_back(
        {static_cast<std::uint32_t>(block.first), lists.starts[k], lists.starts[k + 1]});
  }
  std::uint32_t last = ~std::uint32_t{0};
  for (const ListSegment& segment : lists.segments) {
    const BlockLayout::Block block = layout.block(lists.blocks[segment.block]);
    ListedWidth& width = of(block);
    const auto number = static_cast<std::uint32_t>(width.segments.size());
    if (std::exchange(last, segment.block) != segment.block)
      width.long_lists.push_back({static_cast<std::uint32_t>(block.first), number, number});
    ++width.long_lists.back().end;
    width.segments.push_back({number * block.width, segment.begin, segment.end});
  }
  std::vector<ListedWidth> out;
  for (auto& [width, listed] : by_width) out.push_back(std::move(listed));
  return out;
}

/// Adds products by block slot and coordinate; column_of(numbers) is their column.
template <class T, class Columns>
void list_products(const TermIndex& index, const Products<T>& products, const Columns& column_of,
                   ListedTerm& out) {
  for (std::size_t r = 0; r < products.size(); ++r) {
    out.slots.push_back(static_cast<std::uint32_t>(out.starts.size()));
    for (std::uint32_t c = 0; c < index.block_slots[r].width; ++c) {
      out.starts.push_back(static_cast<std::uint32_t>(out.products.size()));
      for (const Product<T>& p : products[r])
        if (p.target == c) out.products.push_back({column_of(p.a), column_of(p.b), p.scale});
    }
    out.starts.push_back(static_cast<std::uint32_t>(out.products.size()));
  }
}

}  // namespace

template <class T>
std::optional<ListedTerm> LinearTerm<T>::listed(const BlockLayout& layout) const {
  const auto changes = [](const BlockSlot& slot) { return !slot.fixed || slot.width == 0; };
  if (std::ranges::any_of(index().block_slots, changes)) return {};
  const Kernel<T>& linear = term_->kernel(Part::Linear);
  RowIndices rows_of = term_->row_indices();
  ListedTerm out{
      .instances = index().instances,
      .rows = stored_jvp(std::span(linear.sources).subspan(term_->rows()), term_->rows(),
                         term_->term().topology->program.leaves, linear.tile.program().outputs),
      .scalars = std::move(rows_of.parameters),
      .data = std::move(rows_of.data),
      .stored = linear_.size(),
      .slot_bits = index().block_lists.block_slot_bits,
      .entries = index().block_lists.entries,
      .widths = lists_by_width(index().block_lists, layout)};
  const std::vector<T> marks(term_->rows());  // in place of the rows of J·p
  std::vector<Stored<T>> rows;
  for (const T& mark : marks) rows.push_back({&mark, 1});
  const auto column_of = [&](const T* numbers) {
    if (numbers == nullptr) return kNoListedColumn;
    if (numbers >= marks.data() && numbers < marks.data() + marks.size())
      return kListedRow + static_cast<std::uint32_t>(numbers - marks.data());
    const auto stored = std::ranges::find(linear_, numbers, [](const auto& c) { return c.data(); });
    if (stored == linear_.end()) return term_->data_column(numbers);
    return static_cast<std::uint32_t>(out.data.size() +
                                      static_cast<std::size_t>(stored - linear_.begin()));
  };
  list_products(index(), products_with(rows), column_of, out);
  return out;
}

template <class T>
std::vector<Stored<T>> LinearTerm<T>::applied_rows() const {
  std::vector<Stored<T>> rows;
  rows.reserve(applied_.size());
  for (const Column<T>& column : applied_) rows.push_back({column.data(), 1});
  return rows;
}

template <class T>
void LinearTerm<T>::add_square(Pool& pool, std::span<const Stored<T>> rows,
                               const BlockLayout& layout, CostSum& sum) const {
  const TimedPass time = term_->timed("squares");
  std::vector<double> costs = term_->costs().make(sum);
  const auto add_each = [&](std::size_t first, std::size_t n) {
    for (const Stored<T>& row : rows) {
      for (std::size_t i = first; i < first + n; ++i) {
        const double r = row.column == nullptr ? row.scale : row.scale * double{row.column[i]};
        costs[i] += r * r;
      }
    }
  };
  const auto add_tile = [&](std::size_t first, std::size_t n) {
    TileSquares squares;
    for (const Stored<T>& row : rows)
      squares.add(row.column == nullptr ? nullptr : row.column + first, row.scale, n);
    costs[first / kTile] = squares.sum();
  };
  pool.for_ranges(index().instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      if (sum.by_chunk()) {
        add_each(first, n);
      } else {
        add_tile(first, n);
      }
    }
  });
  term_->costs().add(pool, costs, layout, sum);
}

template <class T>
void LinearTerm<T>::add_residual_square(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                                        const BlockLayout& layout, CostSum& cost) const {
  if (term_->term().loss != nullptr) return term_->add_cost(pool, workers, v, layout, cost);
  add_square(pool, stored_residuals(), layout, cost);
}

template <class T>
void LinearTerm<T>::add_applied_square(Pool& pool, const BlockLayout& layout, CostSum& sum) const {
  add_square(pool, applied_rows(), layout, sum);
}

template <class T>
std::uint64_t LinearTerm<T>::bytes() const {
  return bytes_of(linear_) + bytes_of(applied_) + (windows_ ? windows_->bytes() : 0);
}

template class LinearTerm<float>;
template class LinearTerm<double>;

}  // namespace topograd::runtime::cpu
