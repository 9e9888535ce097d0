// Models in another order: rows of batches, flags, bounds and manifolds.
#include "order.hpp"

#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../model/block_numbers.hpp"
#include "../model/manifold_blocks.hpp"

#include <algorithm>
#include <bit>

namespace topograd::runtime {
namespace {

/// Copies rows of a batch in another order, on all threads. The fields of a row are copied
/// together, so that each row needs one random read.
class Picker {
 public:
  Picker(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& out)
      : source_(source), rows_(rows), blocks_(out.append_rows(rows.size())) {}

  /// Copies indices in the new numbering of blocks.
  void pick_parameters(const TouchedBlocks& touched, const Model& model) {
    struct To {
      std::uint32_t width, offset, first_block;
    };
    const BlockNumbers numbers(model.arrays);
    std::vector<To> to;
    for (const SlotGroup& group : touched.groups) {
      const ParameterArray& array = model.arrays[group.array];
      to.push_back(
          {array.width, static_cast<std::uint32_t>(array.offset), numbers.first(group.array)});
    }
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        const auto blocks = touched.of(from[i]);
        for (std::size_t g = 0; g < to.size(); ++g) {
          const std::uint32_t x = to[g].offset + (blocks[g] - to[g].first_block) * to[g].width;
          const SlotGroup& group = touched.groups[g];
          for (std::size_t k = 0; k < group.slots.size(); ++k)
            out.index[group.slots[k] * out.stride + i] = x + group.coordinates[k];
        }
      }
    });
  }

  void pick_index(std::uint32_t column) {
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i)
        out.index[column * out.stride + i] = source_.index(from[i], column);
    });
  }

  /// Copies data and residual rows.
  void pick_numbers() {
    const std::size_t columns = source_.data_columns(), width = columns + 1;
    ir::UnsetPagedVector<std::uint64_t> packed(source_.size() * width);
    each_source([&](std::size_t first, std::size_t count) {
      std::vector<double> numbers(count);
      for (std::uint32_t c = 0; c < columns; ++c) {
        if (source_.resident(c)) continue;
        source_.copy_data_column(c, first, numbers);
        for (std::size_t i = 0; i < count; ++i)
          packed[(first + i) * width + c] = std::bit_cast<std::uint64_t>(numbers[i]);
      }
      for (std::size_t i = 0; i < count; ++i)
        packed[(first + i) * width + columns] = source_.residual_row(first + i);
    });
    each_block([&](const ir::Batch::NewRows& out, std::span<const std::uint32_t> from) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        const std::uint64_t* const row = &packed[from[i] * width];
        for (std::size_t c = 0; c < columns; ++c)
          out.data[c * out.stride + i] = std::bit_cast<double>(row[c]);
        out.row[i] = row[columns];
      }
    });
  }

 private:
  template <class Work>
  void each_block(Work work) {
    ir::parallel_for(std::size_t{0}, blocks_.size(), [&](std::size_t b) {
      work(blocks_[b], rows_.subspan(blocks_[b].first, blocks_[b].count));
    });
  }
  template <class Work>
  void each_source(Work work) {
    constexpr std::size_t kRows = ir::Batch::kBlockRows;
    ir::parallel_for(std::size_t{0}, (source_.size() + kRows - 1) / kRows, [&](std::size_t b) {
      work(b * kRows, std::min(kRows, source_.size() - b * kRows));
    });
  }

  const ir::Batch& source_;
  std::span<const std::uint32_t> rows_;
  std::vector<ir::Batch::NewRows> blocks_;
};

/// Reorders a device-resident column: its numbers stay, and its rows get new places.
bool pick_resident(const ir::Batch& source, std::uint32_t column,
                   std::span<const std::uint32_t> rows, ir::Batch& ordered) {
  const ir::ResidentColumn* const from = source.resident(column);
  if (!from) return false;
  const ir::ResidentColumn* const before = ordered.resident(column);
  if (before && before->places_there == from->places) {
    ordered.set_resident(column, {from->numbers, before->places, from->places});
    return true;
  }
  auto places = std::make_shared<std::vector<std::uint32_t>>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) (*places)[i] = (*from->places)[rows[i]];
  ordered.set_resident(column, {from->numbers, std::move(places), from->places});
  return true;
}

std::unique_ptr<ir::Batch> pick_rows(const ir::Batch& source, const TouchedBlocks& touched,
                                     std::span<const std::uint32_t> rows, const Model& model) {
  auto batch = std::make_unique<ir::Batch>(source.parameter_columns(), source.uniform_columns(),
                                           source.data_columns());
  if (rows.empty()) return batch;
  Picker picker(source, rows, *batch);
  picker.pick_parameters(touched, model);
  for (std::uint32_t c = source.parameter_columns(); c < source.index_columns(); ++c)
    picker.pick_index(c);
  picker.pick_numbers();
  for (std::uint32_t c = 0; c < source.data_columns(); ++c) pick_resident(source, c, rows, *batch);
  return batch;
}

}  // namespace

namespace {

/// Calls work(k) for 0 .. n - 1, on all threads if n is large.
template <class Work>
void each_scalar(std::size_t n, Work work) {
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, n, kGrain), [&](const auto& range) {
    for (std::size_t k = range.begin(); k < range.end(); ++k) work(k);
  });
}

}  // namespace

void ModelOrder::apply(std::span<const double> x, std::span<double> ordered) const {
  each_scalar(position.size(), [&](std::size_t k) { ordered[position[k]] = x[k]; });
}

void ModelOrder::undo(std::span<const double> ordered, std::span<double> x) const {
  each_scalar(position.size(), [&](std::size_t k) { x[k] = ordered[position[k]]; });
}

OrderedModel reorder(const Model& model, ModelOrder& order) {
  OrderedModel out{model, {}};
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    out.batches.push_back(pick_rows(*model.terms[t].batch, order.touched[t], order.rows[t], model));
    out.model.terms[t].batch = out.batches.back().get();
  }
  order.touched = {};
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    out.model.constant[order.position[k]] = model.constant[k];
  }
  if (!model.lower.empty()) order.apply(model.lower, out.model.lower);
  if (!model.upper.empty()) order.apply(model.upper, out.model.upper);
  if (model.manifolds) {
    auto manifolds = std::make_shared<Manifolds>(*model.manifolds);
    for (ManifoldBlocks& manifold_blocks : manifolds->all) {
      for (std::uint32_t& first : manifold_blocks.blocks) first = order.position[first];
      std::ranges::sort(manifold_blocks.blocks);
    }
    out.model.manifolds = std::move(manifolds);
  }
  return out;
}

void refresh_data(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& ordered,
                  bool own) {
  for (std::uint32_t k = 0; k < source.data_columns(); ++k) {
    if (pick_resident(source, k, rows, ordered) || !own) continue;
    ordered.forget_resident(k);
    for (std::size_t i = 0; i < rows.size(); ++i) ordered.set_data(i, k, source.data(rows[i], k));
  }
}

}  // namespace topograd::runtime
