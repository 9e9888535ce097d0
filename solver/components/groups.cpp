// Components of a model, and their groups.
#include "groups.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

Positions Positions::of(std::vector<std::uint32_t> list) {
  Positions out;
  if (list.empty()) return out;
  out.first = list[0];
  out.step = list.size() > 1 && list[1] > list[0] ? list[1] - list[0] : 0;
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (list[k] == out.first + k * out.step) continue;
    list.shrink_to_fit();
    out.list = std::move(list);
    break;
  }
  return out;
}

std::size_t ComponentGroup::number_of(ComponentKernel kernel) {
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const ComponentKernel& other = kernels[k];
    if (other.term == kernel.term && other.parameter_of_slot == kernel.parameter_of_slot &&
        other.free == kernel.free)
      return k;
  }
  kernels.push_back(std::move(kernel));
  return kernels.size() - 1;
}

ComponentSearch::ComponentSearch(const runtime::Model& model, std::uint32_t most) : model_(model) {
  read_blocks();
  join(most);
  if (!counts_.exceeds) number();
}

bool ComponentSearch::is_constant(std::size_t scalar) const {
  return !model_.constant.empty() && model_.constant[scalar] != 0;
}

void ComponentSearch::read_blocks() {
  block_of_.resize(model_.scalars);
  for (const runtime::ParameterArray& array : model_.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b) {
      const auto first = static_cast<std::uint32_t>(array.offset + b * array.width);
      Block block{.first = first, .width = array.width};
      for (std::uint32_t k = first; k < first + array.width; ++k) {
        block_of_[k] = static_cast<std::uint32_t>(blocks_.size());
        block.columns += is_constant(k) ? 0 : 1;
      }
      blocks_.push_back(block);
    }
  }
  if (model_.manifolds == nullptr) return;
  for (std::size_t kind = 0; kind < model_.manifolds->all.size(); ++kind) {
    const runtime::ManifoldBlocks& on = model_.manifolds->all[kind];
    for (const std::uint32_t first : on.blocks) {
      Block& block = blocks_[block_of_[first]];
      if (block.columns == 0) continue;
      block.manifold = static_cast<std::int32_t>(kind);
      block.columns = on.tangent;
    }
  }
}

std::uint32_t ComponentSearch::root(std::uint32_t block) {
  while (parent_[block] != block) {
    parent_[block] = parent_[parent_[block]];
    block = parent_[block];
  }
  return block;
}

void ComponentSearch::join(std::uint32_t most) {
  constexpr std::size_t kRowsAtOnce = 4096;
  parent_.resize(blocks_.size());
  std::iota(parent_.begin(), parent_.end(), 0U);
  component_.assign(blocks_.size(), kNone);
  for (const Block& block : blocks_) size_.push_back(block.columns);
  std::vector<std::uint32_t> slots;
  for (const runtime::Term& term : model_.terms) {
    const std::size_t columns = term.batch->parameter_columns();
    for (std::size_t first = 0; first < term.batch->size(); first += kRowsAtOnce) {
      const std::size_t rows = std::min(kRowsAtOnce, term.batch->size() - first);
      slots.resize(rows * columns);
      for (std::size_t c = 0; c < columns; ++c)
        term.batch->copy_index_column(static_cast<std::uint32_t>(c), first,
                                      std::span(slots).subspan(c * rows, rows));
      if (!join_rows(slots, rows, most)) {
        counts_.exceeds = true;
        return;
      }
    }
  }
}

/// Joins the blocks of each row; false if a component gets too large.
bool ComponentSearch::join_rows(const std::vector<std::uint32_t>& slots, std::size_t rows,
                                std::uint32_t most) {
  const std::size_t columns = slots.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint32_t first = kNone;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::uint32_t block = block_of_[slots[c * rows + i]];
      if (blocks_[block].columns == 0) continue;
      const std::uint32_t other = root(block);
      if (first == kNone) first = other;
      if (other == first) continue;
      // The smaller number stays the root, so that roots ascend like the components.
      const std::uint32_t stays = std::min(other, first), goes = std::max(other, first);
      parent_[goes] = stays;
      size_[stays] += size_[goes];
      first = stays;
    }
    if (first == kNone) {
      has_constant_rows_ = true;
      continue;
    }
    component_[first] = 0;  // a residual reads it
    counts_.largest = std::max(counts_.largest, size_[first]);
    if (size_[first] > most) return false;
  }
  return true;
}

void ComponentSearch::number() {
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    const std::uint32_t r = root(b);
    if (r != b) {
      component_[b] = component_[r];
    } else if (component_[b] == 0) {
      component_[b] = static_cast<std::uint32_t>(counts_.count++);
    }
  }
}

/// Puts components of equal structure together.
class ComponentGrouping {
 public:
  ComponentGrouping(const ComponentSearch& search, codegen::Bits bits)
      : s_(search), model_(search.model_), bits_(bits), local_(search.blocks_.size()) {
    for (const runtime::Term& term : model_.terms) {
      const ir::Batch& batch = *term.batch;
      std::vector<std::uint32_t>& all =
          slots_.emplace_back(batch.size() * batch.parameter_columns());
      for (std::uint32_t c = 0; c < batch.parameter_columns(); ++c)
        batch.copy_index_column(c, 0, std::span(all).subspan(c * batch.size(), batch.size()));
    }
  }

  ComponentGroups run() {
    ComponentGroups out;
    out.count = s_.counts_.count;
    out.largest = s_.counts_.largest;
    list_blocks();
    list_rows();
    out.first.resize(out.count);
    for (std::uint32_t c = 0; c < out.count; ++c) {
      out.first[c] = first_free(c);
      members_[group_of(c)].push_back(c);
    }
    read_data(out);
    for (std::size_t g = 0; g < shapes_.size(); ++g) out.groups.push_back(make(g, out));
    return out;
  }

 private:
  struct Row {
    std::uint32_t term = 0, instance = 0;
  };

  std::uint32_t first_free(std::uint32_t component) const {
    const ComponentSearch::Block& block = s_.blocks_[blocks_[block_starts_[component]]];
    std::uint32_t k = block.first;
    while (s_.is_constant(k)) ++k;
    return k;
  }

  void list_blocks() {
    block_starts_.assign(s_.counts_.count + 1, 0);
    for (const std::uint32_t c : s_.component_)
      if (c != kNone) ++block_starts_[c + 1];
    std::partial_sum(block_starts_.begin(), block_starts_.end(), block_starts_.begin());
    blocks_.resize(block_starts_.back());
    std::vector<std::size_t> next = block_starts_;
    for (std::uint32_t b = 0; b < s_.component_.size(); ++b)
      if (s_.component_[b] != kNone && s_.blocks_[b].columns > 0)
        blocks_[next[s_.component_[b]]++] = b;
  }

  std::uint32_t slot(std::size_t term, std::size_t column, std::size_t instance) const {
    return slots_[term][column * model_.terms[term].batch->size() + instance];
  }
  std::size_t slots(std::size_t term) const {
    return model_.terms[term].batch->parameter_columns();
  }

  std::uint32_t component_of(std::size_t term, std::size_t instance) const {
    for (std::size_t c = 0; c < slots(term); ++c) {
      const std::uint32_t block = s_.block_of_[slot(term, c, instance)];
      if (s_.blocks_[block].columns > 0) return s_.component_[block];
    }
    return kNone;
  }

  void list_rows() {
    row_starts_.assign(s_.counts_.count + 1, 0);
    for_rows([&](std::uint32_t c, Row) { ++row_starts_[c + 1]; });
    std::partial_sum(row_starts_.begin(), row_starts_.end(), row_starts_.begin());
    rows_.resize(row_starts_.back());
    std::vector<std::size_t> next = row_starts_;
    for_rows([&](std::uint32_t c, Row row) { rows_[next[c]++] = row; });
    if (bits_ != codegen::Bits::portable) return;
    const auto begin = rows_.begin();
    for (std::size_t c = 0; c < s_.counts_.count; ++c)
      std::sort(begin + static_cast<std::ptrdiff_t>(row_starts_[c]),
                begin + static_cast<std::ptrdiff_t>(row_starts_[c + 1]),
                [&](const Row& a, const Row& b) { return number_of(a) < number_of(b); });
  }

  /// The number of a row among the residuals.
  std::uint64_t number_of(const Row& row) const {
    return model_.terms[row.term].batch->residual_row(row.instance);
  }

  template <class F>
  void for_rows(const F& f) const {
    for (std::uint32_t t = 0; t < model_.terms.size(); ++t) {
      for (std::uint32_t i = 0; i < model_.terms[t].batch->size(); ++i) {
        const std::uint32_t c = component_of(t, i);
        if (c != kNone) f(c, Row{t, i});
      }
    }
  }

  bool is_bounded(const ComponentSearch::Block& block) const {
    for (std::uint32_t k = block.first; k < block.first + block.width; ++k) {
      if (!model_.lower.empty() && model_.lower[k] > -std::numeric_limits<double>::infinity())
        return true;
      if (!model_.upper.empty() && model_.upper[k] < std::numeric_limits<double>::infinity())
        return true;
    }
    return false;
  }

  void add_block(std::uint32_t b, std::uint32_t& scalars) {
    const ComponentSearch::Block& block = s_.blocks_[b];
    local_[b] = scalars;
    all_.push_back(b);
    scalars += block.width;
    shape_.push_back(block.width);
    shape_.push_back(static_cast<std::uint32_t>(block.manifold));
    for (std::uint32_t k = block.first; k < block.first + block.width; ++k)
      shape_.push_back(s_.is_constant(k) ? 1 : 0);
  }

  /// The structure of a component as numbers, in shape_; its blocks, fixed ones last, in all_.
  void describe(std::uint32_t c) {
    shape_.clear();
    all_.clear();
    std::uint32_t scalars = 0, bounded = 0;
    for (std::size_t k = block_starts_[c]; k < block_starts_[c + 1]; ++k) {
      add_block(blocks_[k], scalars);
      bounded |= is_bounded(s_.blocks_[blocks_[k]]) ? 1U : 0U;
    }
    shape_.push_back(bounded);
    std::vector<std::uint32_t> fixed;
    for (std::size_t k = row_starts_[c]; k < row_starts_[c + 1]; ++k) {
      const Row row = rows_[k];
      shape_.push_back(row.term);
      for (std::size_t s = 0; s < slots(row.term); ++s) {
        const std::uint32_t scalar = slot(row.term, s, row.instance);
        const std::uint32_t b = s_.block_of_[scalar];
        if (s_.blocks_[b].columns == 0 && std::ranges::find(fixed, b) == fixed.end()) {
          fixed.push_back(b);
          add_block(b, scalars);
        }
        shape_.push_back(local_[b] + scalar - s_.blocks_[b].first);
      }
    }
  }

  std::size_t group_of(std::uint32_t c) {
    describe(c);
    if (last_ < shapes_.size() && shapes_[last_] == shape_) return last_;
    std::uint64_t hash = shape_.size();
    for (const std::uint32_t n : shape_) hash = (hash ^ n) * 0x9E3779B97F4A7C15U;
    const auto [begin, end] = known_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (shapes_[it->second] == shape_) return last_ = it->second;
    last_ = shapes_.size();
    known_.emplace(hash, last_);
    shapes_.push_back(shape_);
    members_.emplace_back();
    return last_;
  }

  void read_data(ComponentGroups& out) const {
    for (const runtime::Term& term : model_.terms) {
      for (std::uint32_t d = 0; d < term.batch->data_columns(); ++d) {
        std::vector<double>& column = out.columns.emplace_back(term.batch->size());
        term.batch->copy_data_column(d, 0, column);
      }
    }
    // One list of positions for the scalars and one for the rows; groups refer to them.
    std::size_t count = 0;
    for (const std::vector<std::uint32_t>& members : members_)
      count += row_starts_[members[0] + 1] - row_starts_[members[0]];
    out.rows.reserve(2 * count * (1 + most_uniforms()));
  }

  std::size_t most_uniforms() const {
    std::size_t most = 0;
    for (const runtime::Term& term : model_.terms)
      most = std::max<std::size_t>(most, term.batch->uniform_columns());
    return most;
  }

  ComponentGroup make(std::size_t g, ComponentGroups& out) {
    const std::vector<std::uint32_t>& members = members_[g];
    ComponentGroup group;
    group.count = members.size();
    group.numbers = Positions::of(members);
    describe(members[0]);
    add_blocks(group);
    find_positions(group, members);
    const std::size_t rows = row_starts_[members[0] + 1] - row_starts_[members[0]];
    for (std::size_t j = 0; j < rows; ++j) add_rows(group, members, j, out);
    return group;
  }

  void add_blocks(ComponentGroup& group) const {
    for (const std::uint32_t b : all_) {
      const ComponentSearch::Block& from = s_.blocks_[b];
      ComponentBlock block{.first = group.scalars,
                           .width = from.width,
                           .column = group.columns,
                           .columns = from.columns};
      if (from.manifold >= 0 && from.columns > 0)
        block.manifold = &model_.manifolds->all[static_cast<std::size_t>(from.manifold)];
      group.on_manifolds |= block.manifold != nullptr;
      group.bounded |= from.columns > 0 && is_bounded(from);
      for (std::uint32_t k = from.first; k < from.first + from.width; ++k) {
        const bool fixed = from.columns == 0 || s_.is_constant(k);
        group.column.push_back(fixed ? ComponentGroup::kFixed : group.columns);
        if (!fixed && block.manifold == nullptr) ++group.columns;
      }
      if (block.manifold != nullptr) group.columns += block.columns;
      group.scalars += from.width;
      group.blocks.push_back(block);
    }
  }

  void find_positions(ComponentGroup& group, const std::vector<std::uint32_t>& members) {
    std::vector<std::vector<std::uint32_t>> first(group.blocks.size());
    for (const std::uint32_t c : members) {
      describe(c);
      for (std::size_t b = 0; b < all_.size(); ++b) first[b].push_back(s_.blocks_[all_[b]].first);
    }
    for (std::size_t b = 0; b < first.size(); ++b) {
      for (std::uint32_t k = 0; k < group.blocks[b].width; ++k) {
        group.x.push_back(Positions::of(first[b]));
        for (std::uint32_t& position : first[b]) ++position;
      }
    }
    describe(members[0]);
  }

  /// Row j of every member.
  void add_rows(ComponentGroup& group, const std::vector<std::uint32_t>& members, std::size_t j,
                ComponentGroups& out) const {
    const Row row = rows_[row_starts_[members[0]] + j];
    const runtime::Term& term = model_.terms[row.term];
    ComponentRows rows;
    ComponentKernel kernel{.term = &term};
    for (std::size_t s = 0; s < slots(row.term); ++s) {
      const std::uint32_t scalar = slot(row.term, s, row.instance);
      const std::uint32_t b = s_.block_of_[scalar];
      const std::uint32_t local = local_[b] + scalar - s_.blocks_[b].first;
      const auto found = std::ranges::find(rows.unknowns, local);
      kernel.parameter_of_slot.push_back(static_cast<std::uint32_t>(found - rows.unknowns.begin()));
      if (found != rows.unknowns.end()) continue;
      rows.unknowns.push_back(local);
      kernel.free.push_back(group.column[local] == ComponentGroup::kFixed ? 0 : 1);
    }
    rows.kernel = group.number_of(std::move(kernel));
    std::vector<std::uint32_t> instances;
    instances.reserve(members.size());
    for (const std::uint32_t c : members) instances.push_back(rows_[row_starts_[c] + j].instance);
    add_numbers(rows, row.term, instances, out);
    group.rows += static_cast<std::uint32_t>(term.topology->program.outputs.size());
    group.residuals.push_back(std::move(rows));
  }

  void add_numbers(ComponentRows& rows, std::uint32_t t,
                   const std::vector<std::uint32_t>& instances, ComponentGroups& out) const {
    const ir::Batch& batch = *model_.terms[t].batch;
    std::size_t first = 0;
    for (std::uint32_t k = 0; k < t; ++k) first += model_.terms[k].batch->data_columns();
    out.rows.push_back(Positions::of(instances));
    const Positions* const instances_of = &out.rows.back();
    for (std::uint32_t d = 0; d < batch.data_columns(); ++d)
      rows.data.push_back({out.columns[first + d].data(), instances_of});
    for (std::uint32_t u = 0; u < batch.uniform_columns(); ++u) {
      std::vector<std::uint32_t> positions;
      positions.reserve(instances.size());
      for (const std::uint32_t i : instances)
        positions.push_back(batch.index(i, batch.parameter_columns() + u));
      const bool same =
          std::ranges::adjacent_find(positions, std::not_equal_to()) == positions.end();
      if (same) {
        rows.data.push_back({model_.uniforms.data() + positions[0], nullptr});
      } else {
        out.rows.push_back(Positions::of(std::move(positions)));
        rows.data.push_back({model_.uniforms.data(), &out.rows.back()});
      }
    }
  }

  const ComponentSearch& s_;
  const runtime::Model& model_;
  const codegen::Bits bits_;
  std::vector<std::vector<std::uint32_t>> slots_;  // by term: index columns, one after the other
  std::vector<std::size_t> block_starts_, row_starts_;  // by component
  std::vector<std::uint32_t> blocks_;                   // with free coordinates, by component
  std::vector<Row> rows_;                               // by component
  std::vector<std::uint32_t> local_;                    // by block: first scalar in its component
  std::vector<std::uint32_t> shape_, all_;              // describe()
  std::vector<std::vector<std::uint32_t>> shapes_, members_;  // by group
  std::unordered_multimap<std::uint64_t, std::size_t> known_;
  std::size_t last_ = ~std::size_t{0};
};

ComponentGroups ComponentSearch::groups(codegen::Bits bits) {
  ComponentGroups out = ComponentGrouping(*this, bits).run();
  if (has_constant_rows_) out.obstacle = "some residuals read no free unknown";
  return out;
}

}  // namespace topograd
