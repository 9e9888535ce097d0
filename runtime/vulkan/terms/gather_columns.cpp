// Work items and columns of gather passes, cut into parts that fit a device's ranges.
#include "gather_set.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// A whole index column of a batch.
std::vector<std::uint32_t> index_column(const ir::Batch& batch, std::uint32_t column) {
  std::vector<std::uint32_t> values(batch.size());
  batch.copy_index_column(column, 0, values);
  return values;
}

template <class T>
std::vector<T> data_column(const ir::Batch& batch, std::uint32_t column) {
  std::vector<T> values(batch.size());
  const auto rows = tbb::blocked_range<std::size_t>(0, batch.size(), ir::Batch::kBlockRows);
  ir::parallel_for(rows, [&](const auto& range) {
    std::vector<double> block(range.size());
    batch.copy_data_column(column, range.begin(), block);
    std::copy(block.begin(), block.end(), values.begin() + range.begin());
  });
  return values;
}

template <class T>
void pick(std::span<const T> source, std::span<const std::uint32_t> at, std::span<T> out) {
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, at.size(), 1 << 14), [&](const auto& range) {
    for (std::size_t k = range.begin(); k < range.end(); ++k) out[k] = source[at[k]];
  });
}

}  // namespace

void GatherSet::cut_into_parts() {
  const auto roles = static_cast<std::uint32_t>(plan_.roles.size());
  const auto items = static_cast<std::uint32_t>(plan_.owners.size());
  const std::uint64_t entry_bytes = std::max<std::uint64_t>(
      {4ull * columns_, 4ull,
       std::uint64_t{context_.element_bytes()} * view_.shape.layout.data_columns});
  std::uint64_t shared = view_.shape.layout.data_columns;
  for (const std::vector<EntryForm>& forms : role_forms_) shared += forms.size();
  shared = std::min(context_.max_range(), shared * sizeof(double));
  const std::uint64_t most_entries = (context_.max_range() - shared) / entry_bytes;
  const std::uint64_t most_items = context_.max_range() / (4 * (roles + 1));
  const std::uint64_t most_span = most_owners();
  std::uint32_t first = 0;
  while (first < items) {
    const std::uint32_t begin = plan_.starts[std::size_t{first} * roles];
    const std::uint32_t end = first < plan_.light_items    ? plan_.light_items
                              : first < plan_.direct_items ? plan_.direct_items
                                                           : items;
    std::uint32_t last = first + 1;
    while (last < end && last - first < most_items &&
           plan_.starts[(std::size_t{last} + 1) * roles] - begin <= most_entries &&
           (last >= plan_.direct_items || plan_.outputs[last] - plan_.outputs[first] < most_span)) {
      ++last;
    }
    add_part(first, last);
    first = last;
  }
}

void GatherSet::add_part(std::uint32_t first_item, std::uint32_t last_item) {
  const std::size_t roles = plan_.roles.size();
  Part part;
  part.items = last_item - first_item;
  part.direct = first_item < plan_.direct_items;
  part.light = first_item < plan_.light_items;
  part.first_output = plan_.outputs[first_item];
  part.last_output = plan_.outputs[last_item - 1];
  part.first_entry = plan_.starts[first_item * roles];
  part.entries = plan_.starts[last_item * roles] - part.first_entry;
  std::vector<std::uint32_t> starts(plan_.starts.begin() + first_item * roles,
                                    plan_.starts.begin() + last_item * roles + 1);
  for (std::uint32_t& s : starts) s -= part.first_entry;
  const auto slice = [&](const std::vector<std::uint32_t>& all) {
    return std::span(all).subspan(first_item, part.items);
  };
  part.starts = make_buffer(context_, starts, view_.shape.name + "_starts");
  part.owners = make_buffer(context_, slice(plan_.owners), view_.shape.name + "_owners");
  part.outputs = make_buffer(context_, slice(plan_.outputs), view_.shape.name + "_outputs");
  if (plan_.array == kScalars) {
    const auto outputs = slice(plan_.outputs);
    part.item_outputs.assign(outputs.begin(), outputs.end());
  }
  if (!plan_.of_terms) {
    upload_index(part);
    upload_data(part);
  }
  parts_.push_back(std::move(part));
}

std::span<const std::uint32_t> GatherSet::instances(const Part& part) const {
  return std::span(plan_.instances).subspan(part.first_entry, part.entries);
}

/// What the entries of each role store of the columns that they read.
void GatherSet::find_columns() {
  const codegen::ColumnLayout& layout = view_.shape.layout;
  role_columns_ = entry_columns(layout, view_.shape.groups, plan_.roles, view_.shape.flexible);
  for (std::size_t r = 0; r < plan_.roles.size(); ++r) {
    role_forms_.push_back(find_entry_forms(*view_.batch, layout, role_columns_[r],
                                           view_.shape.groups[plan_.roles[r]]));
    const auto stored = std::ranges::count(role_forms_.back(), true, &EntryForm::stored);
    columns_ = std::max(columns_, static_cast<std::uint32_t>(stored));
  }
}

/// Words by form. The stored columns of a role are the first ones, in their order.
void GatherSet::place_index(Part& part) const {
  std::uint32_t position = columns_ * part.entries;
  for (std::size_t r = 0; r < role_columns_.size(); ++r) {
    std::uint32_t stored = role_columns_[r].fixed;
    for (std::size_t c = role_columns_[r].fixed; c < role_forms_[r].size(); ++c) {
      const EntryForm& form = role_forms_[r][c];
      part.words.index.push_back(form.stored ? codegen::form_by_row(stored++ * part.entries)
                                             : codegen::form_shared(position++));
      part.words.step.push_back(form.stored ? 0 : form.step);
    }
  }
}

/// Entries of a role read that role's columns; roles of one owner are neighbours.
std::vector<std::uint32_t> GatherSet::entry_indices(const Part& part) const {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  std::map<std::uint32_t, std::vector<std::uint32_t>> sources;  // by column of the layout
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
      if (source.empty()) source = index_column(*view_.batch, stored.index[column]);
      of_role[r].push_back(source.data());
    }
  }
  std::vector<std::uint32_t> columns(std::size_t{columns_} * part.entries);
  const std::span<const std::uint32_t> at = instances(part);
  const std::uint32_t first = part.first_entry, last = first + part.entries;
  const auto starts = tbb::blocked_range<std::size_t>(0, plan_.starts.size() - 1, 1 << 13);
  ir::parallel_for(starts, [&](const auto& range) {
    for (std::size_t k = range.begin(); k < range.end(); ++k) {
      const std::uint32_t from = std::max(plan_.starts[k], first) - first;
      const std::uint32_t to = std::max(std::min(plan_.starts[k + 1], last), first) - first;
      std::uint32_t* out = columns.data();
      for (const std::uint32_t* source : of_role[k % of_role.size()]) {
        for (std::uint32_t e = from; e < to; ++e) out[e] = source[at[e]];
        out += part.entries;
      }
    }
  });
  columns.insert(columns.end(), shared.begin(), shared.end());
  return columns;
}

void GatherSet::upload_index(Part& part) {
  part.index = make_buffer(context_, entry_indices(part), view_.shape.name + "_gather_index");
  place_index(part);
}

void GatherSet::upload_data(Part& part, bool own) {
  context_.wide() ? upload_data_as<double>(part, own) : upload_data_as<float>(part, own);
}

template <class T>
void GatherSet::upload_data_as(Part& part, bool own) {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  const std::vector<DataForm>& forms = view_.forms->data;
  std::vector<T> picked(view_.forms->stored_data() * std::size_t{part.entries}), shared;
  for (std::size_t c = 0, at = 0; c < forms.size(); ++c) {
    if (!forms[c].stored) {
      shared.push_back(static_cast<T>(forms[c].value));
      continue;
    }
    const bool there = part.remote.add(context_, *view_.batch, stored.data[c], at, part.entries);
    if (!there && (own || view_.batch->remote(stored.data[c]))) {
      const std::vector<T> source = data_column<T>(*view_.batch, stored.data[c]);
      const auto column = std::span(picked).subspan(at, part.entries);
      pick<T>(source, instances(part), column);
      if (!own) context_.device->upload<T>(part.data, column, at * sizeof(T));
    }
    at += part.entries;
  }
  picked.insert(picked.end(), shared.begin(), shared.end());
  if (!part.data) {
    part.words.data = form_words(forms, part.entries);
    part.data = make_numbers(context_, picked.size(), view_.shape.name + "_gather_data");
  }
  const auto write = [&](std::uint64_t first, std::uint64_t count) {
    context_.device->upload<T>(part.data, std::span<const T>(picked).subspan(first, count),
                               first * sizeof(T));
  };
  if (own) part.remote.each_other(picked.size(), write);
  part.remote.take(context_, *view_.batch, part.data, instances(part));
}

void GatherSet::bind_columns(BindingTable& table, const Part& part) const {
  if (plan_.of_terms) return;
  table.set(BufferRole::index_columns, part.index);
  table.set(BufferRole::data_columns, part.data);
  table.set(part.words);
}

void GatherSet::upload_instances() {
  for (Part& part : parts_) {
    if (part.instances) continue;
    part.instances = make_buffer(
        context_,
        std::span<const std::uint32_t>(plan_.instances).subspan(part.first_entry, part.entries),
        view_.shape.name + "_entries");
  }
}

void GatherSet::place_outputs(const std::vector<std::uint32_t>& positions) {
  const auto place = [&](std::vector<std::uint32_t> owners) {
    for (std::uint32_t& owner : owners) owner = positions[owner];
    return make_buffer(context_, owners, view_.shape.name + "_placed_outputs");
  };
  for (Part& part : parts_) {
    if (part.direct && !part.placed_outputs) part.placed_outputs = place(part.item_outputs);
  }
  for (LevelPart& level : levels_) {
    if (level.to_owners && !level.placed_outputs) level.placed_outputs = place(level.targets);
  }
}

void GatherSet::refresh_data(bool moved, bool own) {
  if (plan_.of_terms) return;
  for (Part& part : parts_) {
    if (moved) part.data = Buffer();
    upload_data(part, own);
  }
}

void GatherSet::add_levels() {
  const std::uint64_t most_span = most_owners();
  for (const GatherPlan::Level& level : plan_.levels) {
    for (std::size_t first = 0; first < level.target.size();) {
      std::size_t last = first + 1;
      while (last < level.target.size() &&
             (!level.to_owners || level.target[last] - level.target[first] < most_span)) {
        ++last;
      }
      add_level(level, first, last);
      first = last;
    }
  }
}

void GatherSet::add_level(const GatherPlan::Level& level, std::size_t first, std::size_t last) {
  LevelPart part;
  part.to_owners = level.to_owners;
  part.items = static_cast<std::uint32_t>(last - first);
  std::vector<std::uint32_t> starts = {0};
  for (std::size_t k = first; k < last; ++k) {
    for (std::uint32_t p = level.first[2 * k]; p < level.first[2 * k + 1]; ++p) {
      part.partials.push_back(p);
    }
    starts.push_back(static_cast<std::uint32_t>(part.partials.size()));
  }
  const auto targets = std::span(level.target).subspan(first, last - first);
  part.targets.assign(targets.begin(), targets.end());
  part.first_output = targets.front();
  part.last_output = targets.back();
  part.starts = make_buffer(context_, starts, "level_starts");
  part.owners = make_buffer(context_, targets, "level_owners");
  part.outputs = make_buffer(context_, targets, "level_outputs");
  levels_.push_back(std::move(part));
}

}  // namespace topograd::runtime::vulkan
