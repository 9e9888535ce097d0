// Columns in the order of entries.
#include "gather_columns.hpp"

#include "../../../ir/batch/unset_vector.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "../../plan/column_copy.hpp"

#include <map>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// A whole column of a batch, as copy_column() copies it.
template <class T>
ir::UnsetVector<T> whole_column(const ir::Batch& batch, std::uint32_t column) {
  ir::UnsetVector<T> values(batch.size());
  copy_column<T>(batch, column, 0, values);
  return values;
}

template <class T>
void pick(std::span<const T> source, std::span<const std::uint32_t> at, std::span<T> out) {
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, at.size(), 1 << 14), [&](const auto& range) {
    for (std::size_t k = range.begin(); k < range.end(); ++k) out[k] = source[at[k]];
  });
}

}  // namespace

GatherColumns::GatherColumns(Context& context, const BatchView& view, const GatherPlan& plan)
    : context_(context), view_(view), plan_(plan) {
  if (plan.of_terms) return;
  const codegen::ColumnLayout& layout = view.shape.layout;
  role_columns_ = entry_columns(layout, view.shape.groups, plan.roles, view.shape.flexible);
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    role_forms_.push_back(
        find_entry_forms(*view.batch, layout, role_columns_[r], view.shape.groups[plan.roles[r]]));
    const auto stored = std::ranges::count(role_forms_.back(), true, &EntryForm::stored);
    columns_ = std::max(columns_, static_cast<std::uint32_t>(stored));
  }
}

std::uint64_t GatherColumns::most_entries() const {
  const std::uint64_t bytes = std::max<std::uint64_t>(
      {4ull * columns_, 4ull,
       std::uint64_t{context_.element_bytes()} * view_.shape.layout.data_columns});
  std::uint64_t shared = view_.shape.layout.data_columns;
  for (const std::vector<EntryForm>& forms : role_forms_) shared += forms.size();
  shared = std::min(context_.max_range(), shared * sizeof(double));
  return (context_.max_range() - shared) / bytes;
}

GatherColumns::Piece GatherColumns::upload(std::uint32_t first, std::uint32_t count) const {
  Piece piece{.first = first, .count = count};
  if (plan_.of_terms) return piece;
  piece.index = make_buffer(context_, entry_indices(piece), view_.shape.name + "_gather_index");
  place_index(piece);
  upload_data(piece, true);
  return piece;
}

void GatherColumns::bind(BindingTable& table, const Piece& piece) const {
  if (plan_.of_terms) return;
  table.set(BufferRole::index_columns, piece.index);
  table.set(BufferRole::data_columns, piece.data);
  table.set(piece.words);
}

void GatherColumns::refresh(Piece& piece, bool moved, bool own) const {
  if (plan_.of_terms) return;
  if (moved) piece.data = Buffer();
  upload_data(piece, own);
}

std::span<const std::uint32_t> GatherColumns::instances(const Piece& piece) const {
  return std::span(plan_.instances).subspan(piece.first, piece.count);
}

/// Words by form. The stored columns of a role are the first ones, in their order.
void GatherColumns::place_index(Piece& piece) const {
  std::uint32_t position = columns_ * piece.count;
  for (std::size_t r = 0; r < role_columns_.size(); ++r) {
    std::uint32_t stored = role_columns_[r].fixed;
    for (std::size_t c = role_columns_[r].fixed; c < role_forms_[r].size(); ++c) {
      const EntryForm& form = role_forms_[r][c];
      piece.words.index.push_back(form.stored ? codegen::form_by_row(stored++ * piece.count)
                                              : codegen::form_shared(position++));
      piece.words.step.push_back(form.stored ? 0 : form.step);
    }
  }
}

/// Entries of a role read that role's columns; roles of one owner are neighbours.
ir::UnsetVector<std::uint32_t> GatherColumns::entry_indices(const Piece& piece) const {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  std::map<std::uint32_t, ir::UnsetVector<std::uint32_t>> sources;  // by column of the layout
  std::vector<std::vector<const std::uint32_t*>> of_role(role_columns_.size());
  std::vector<std::uint32_t> shared;
  for (std::size_t r = 0; r < role_columns_.size(); ++r) {
    for (std::size_t c = 0; c < role_forms_[r].size(); ++c) {
      const std::uint32_t column = role_columns_[r].index_columns[c];
      if (!role_forms_[r][c].stored) {
        shared.push_back(role_forms_[r][c].base);
        continue;
      }
      auto& source = sources[column];
      if (source.empty()) source = whole_column<std::uint32_t>(*view_.batch, stored.index[column]);
      of_role[r].push_back(source.data());
    }
  }
  ir::UnsetVector<std::uint32_t> columns(std::size_t{columns_} * piece.count + shared.size());
  const std::span<const std::uint32_t> at = instances(piece);
  const std::uint32_t first = piece.first, last = first + piece.count;
  const auto starts = tbb::blocked_range<std::size_t>(0, plan_.starts.size() - 1, 1 << 13);
  ir::parallel_for(starts, [&](const auto& range) {
    for (std::size_t k = range.begin(); k < range.end(); ++k) {
      const std::uint32_t from = std::max(plan_.starts[k], first) - first;
      const std::uint32_t to = std::max(std::min(plan_.starts[k + 1], last), first) - first;
      std::uint32_t* out = columns.data();
      for (const std::uint32_t* source : of_role[k % of_role.size()]) {
        for (std::uint32_t e = from; e < to; ++e) out[e] = source[at[e]];
        out += piece.count;
      }
    }
  });
  std::ranges::copy(shared, columns.end() - static_cast<std::ptrdiff_t>(shared.size()));
  return columns;
}

void GatherColumns::upload_data(Piece& piece, bool own) const {
  context_.wide() ? upload_data_as<double>(piece, own) : upload_data_as<float>(piece, own);
}

template <class T>
void GatherColumns::upload_data_as(Piece& piece, bool own) const {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  const std::vector<DataForm>& forms = view_.forms->data;
  const std::size_t by_row = view_.forms->stored_data() * std::size_t{piece.count};
  ir::UnsetVector<T> picked(by_row + forms.size() - view_.forms->stored_data());
  auto shared = picked.begin() + static_cast<std::ptrdiff_t>(by_row);
  for (std::size_t c = 0, at = 0; c < forms.size(); ++c) {
    if (!forms[c].stored) {
      *shared++ = static_cast<T>(forms[c].value);
      continue;
    }
    const bool there = piece.resident.add(context_, *view_.batch, stored.data[c], at, piece.count);
    if (!there && (own || view_.batch->resident(stored.data[c]))) {
      const ir::UnsetVector<T> source = whole_column<T>(*view_.batch, stored.data[c]);
      const auto column = std::span(picked).subspan(at, piece.count);
      pick<T>(source, instances(piece), column);
      if (!own) context_.device->upload<T>(piece.data, column, at * sizeof(T));
    }
    at += piece.count;
  }
  if (!piece.data) {
    piece.words.data = form_words(forms, piece.count);
    piece.data = make_numbers(context_, picked.size(), view_.shape.name + "_gather_data");
  }
  const auto write = [&](std::uint64_t first, std::uint64_t count) {
    context_.device->upload<T>(piece.data, std::span<const T>(picked).subspan(first, count),
                               first * sizeof(T));
  };
  if (own) piece.resident.each_other(picked.size(), write);
  piece.resident.take(context_, *view_.batch, piece.data, instances(piece));
}

}  // namespace topograd::runtime::vulkan
