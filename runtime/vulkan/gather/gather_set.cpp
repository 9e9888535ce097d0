// Parts and kernels of gather passes, small terms that are fused with others, and the recording.
#include "gather_set.hpp"

#include "../../../ir/batch/unset_vector.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "../../plan/column_forms.hpp"
#include "../../plan/requests.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <span>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// 0, 1, 2, ...
bool counts_up(std::span<const std::uint32_t> values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (values[k] != k) return false;
  }
  return true;
}

}  // namespace

GatherSet::GatherSet(Context& context, const BatchView& view, GatherPlan plan)
    : context_(context),
      view_(view),
      plan_(std::move(plan)),
      columns_(context, view_, plan_),
      partial_sums_(context, plan_) {
  cut_into_parts();
  dense_ = plan_.array != kScalars && parts_.size() == 1 && parts_[0].light &&
           counts_up(plan_.blocks) && counts_up(plan_.outputs);
  choose_workgroups();
  block_slot_entries_.resize(plan_.block_slots.size());
  for (std::size_t k = 0; k + 1 < plan_.starts.size(); ++k)
    block_slot_entries_[k % plan_.block_slots.size()] += plan_.starts[k + 1] - plan_.starts[k];
  // Only what a change of data needs stays on the host.
  plan_.starts = {};
  plan_.blocks = {};
  plan_.outputs = {};
}

void GatherSet::cut_into_parts() {
  const auto block_slots = static_cast<std::uint32_t>(plan_.block_slots.size());
  const auto items = static_cast<std::uint32_t>(plan_.blocks.size());
  const std::uint64_t most_entries = columns_.most_entries();
  const std::uint64_t most_items = context_.max_range() / (4 * (block_slots + 1));
  const std::uint64_t most_span = most_blocks(context_, plan_.block_width, plan_.array == kScalars);
  std::uint32_t first = 0;
  while (first < items) {
    const std::uint32_t begin = plan_.starts[std::size_t{first} * block_slots];
    const std::uint32_t end = first < plan_.light_items    ? plan_.light_items
                              : first < plan_.direct_items ? plan_.direct_items
                                                           : items;
    std::uint32_t last = first + 1;
    while (last < end && last - first < most_items &&
           plan_.starts[(std::size_t{last} + 1) * block_slots] - begin <= most_entries &&
           (last >= plan_.direct_items || plan_.outputs[last] - plan_.outputs[first] < most_span)) {
      ++last;
    }
    add_part(first, last);
    first = last;
  }
}

void GatherSet::add_part(std::uint32_t first_item, std::uint32_t last_item) {
  const std::size_t block_slots = plan_.block_slots.size();
  Part part;
  part.items = last_item - first_item;
  part.direct = first_item < plan_.direct_items;
  part.light = first_item < plan_.light_items;
  part.first_output = plan_.outputs[first_item];
  part.last_output = plan_.outputs[last_item - 1];
  const std::uint32_t first_entry = plan_.starts[first_item * block_slots];
  std::vector<std::uint32_t> starts(plan_.starts.begin() + first_item * block_slots,
                                    plan_.starts.begin() + last_item * block_slots + 1);
  for (std::uint32_t& s : starts) s -= first_entry;
  const auto slice = [&](const std::vector<std::uint32_t>& all) {
    return std::span(all).subspan(first_item, part.items);
  };
  part.starts = make_buffer(context_, starts, view_.shape.name + "_starts");
  part.blocks = make_buffer(context_, slice(plan_.blocks), view_.shape.name + "_owners");
  part.outputs = make_buffer(context_, slice(plan_.outputs), view_.shape.name + "_outputs");
  if (plan_.array == kScalars) {
    const auto outputs = slice(plan_.outputs);
    part.item_outputs.assign(outputs.begin(), outputs.end());
  }
  part.columns = columns_.upload(first_entry, plan_.starts[last_item * block_slots] - first_entry);
  parts_.push_back(std::move(part));
}

void GatherSet::upload_instances() {
  for (Part& part : parts_) {
    if (part.instances) continue;
    part.instances = make_buffer(
        context_, std::span(plan_.instances).subspan(part.columns.first, part.columns.count),
        view_.shape.name + "_entries");
  }
}

void GatherSet::place_outputs(const std::vector<std::uint32_t>& positions) {
  for (Part& part : parts_) {
    if (!part.direct || part.placed_outputs) continue;
    std::vector<std::uint32_t> sum_positions = part.item_outputs;
    for (std::uint32_t& sum_position : sum_positions) sum_position = positions[sum_position];
    part.placed_outputs =
        make_buffer(context_, sum_positions, view_.shape.name + "_placed_outputs");
  }
  partial_sums_.place_outputs(positions);
}

void GatherSet::refresh_data(bool moved, bool own) {
  for (Part& part : parts_) columns_.refresh(part.columns, moved, own);
}

void GatherSet::choose_workgroups() {
  std::uint64_t items = 0, entries = 0;
  for (const Part& part : parts_) {
    if (part.light) continue;
    items += part.items;
    entries += part.columns.count;
  }
  constexpr std::uint64_t kMostEntries = 256;  // larger workgroups hold too many registers
  if (items == 0) return;
  const std::uint64_t each = context_.is_part() ? kMostEntries : entries / items;
  heavy_size_ = context_.item_workgroup_size(std::min(each, kMostEntries));
}

bool GatherSet::has_light() const { return std::ranges::any_of(parts_, &Part::light); }
bool GatherSet::has_heavy() const { return !std::ranges::all_of(parts_, &Part::light); }

codegen::KernelRequest GatherSet::request(Pass pass, bool stored_terms, bool heavy) const {
  codegen::KernelRequest made =
      plan_.of_terms ? sum_terms_request(view_.shape, pass)
      : stored_terms ? sum_terms_request(view_.shape, pass, plan_.block_slots, plan_.block_width)
                     : gather_request(view_.shape, pass, plan_.block_slots, plan_.block_width,
                                      lead().value_or(0));
  made.dense_blocks = dense_;
  if (heavy) {
    made.name += "_shared";
    made.workgroup_items = true;
    made.workgroup_size = heavy_size_;
  }
  return made;
}

ir::Hash128 GatherSet::source_hash(Pass pass) {
  ir::Hash128 hash;
  for (const bool heavy : {false, true}) {
    if (!(heavy ? has_heavy() : has_light())) continue;
    const ir::Hash128 one = vulkan::source_hash(context_, request(pass, false, heavy));
    ir::add_bytes(hash, &one, sizeof one);
  }
  return hash;
}

GatherSet::Kernels& GatherSet::kernels_of(const CommandList& list, const Run& what) {
  const std::tuple key(what.pass, what.stored_terms, what.predicated);
  auto found = kernels_.find(key);
  if (found == kernels_.end() && list.declared() != nullptr) {
    const std::uint32_t sums = sums_of_block(what.pass, plan_.block_width);
    found =
        kernels_.emplace(key, Kernels{.combine = partial_sums_.make_pass(sums, what.predicated)})
            .first;
  }
  if (found == kernels_.end())
    throw Error(ErrorCode::Internal, "sums of pass " + std::string(name(what.pass)) + " of \"" +
                                         view_.shape.name +
                                         "\" are recorded, but were not declared");
  return found->second;
}

/// Its entries are evaluated for one block slot each.
double GatherSet::instances_per_item(const Part& part) const {
  const double entries = part.columns.count;
  return entries / static_cast<double>(std::max<std::size_t>(plan_.block_slots.size(), 1) *
                                       std::max<std::uint64_t>(part.items, 1));
}

std::uint64_t GatherSet::run(CommandList& list, const Run& what, BindingTable& table,
                             const SumTarget& target) {
  Kernels& kernels = kernels_of(list, what);
  if (list.declared() == nullptr) {
    if (what.stored_terms || what.pass == Pass::vjp || what.pass == Pass::values)
      upload_instances();
    if (target.positions != nullptr) place_outputs(*target.positions);
  }
  const std::uint64_t before = list.dispatches();
  for (Part& part : parts_) {
    const bool placed = part.direct && target.positions != nullptr;
    table.set(BufferRole::starts, part.starts);
    table.set(BufferRole::owners, part.blocks);
    table.set(BufferRole::outputs, placed ? part.placed_outputs : part.outputs);
    table.set(BufferRole::entries, part.instances);
    columns_.bind(table, part.columns);
    table.set({.instances_per_item = instances_per_item(part)});
    codegen::PushConstants push;
    push.stride = part.columns.count;
    push.out_stride = what.out_stride;
    push.x_first = static_cast<std::uint32_t>(plan_.x_first);
    push.overwrite = !part.direct || target.overwrite;
    if (part.direct) {
      push.out_first = bind_target(context_, table, target, kernels.combine.sums, part.first_output,
                                   part.last_output);
    } else {
      table.set(BufferRole::results, kernels.combine.partials[0]);
    }
    if (what.sinks != nullptr) {
      push.costs_first() = what.sinks->next;
      push.rows_stride() = static_cast<std::uint32_t>(view_.batch->size());
    }
    const LoadedKernel& kernel = serving_kernel(
        context_, list, part.light ? kernels.sum : kernels.heavy,
        what.stored_terms ? SharedNumbers{} : *view_.numbers, [&] {
          codegen::KernelRequest made = request(what.pass, what.stored_terms, !part.light);
          made.predicated = what.predicated;
          return made;
        });
    const std::uint32_t next = dispatch_all(context_, list, kernel, table, push, part.items);
    if (what.sinks != nullptr) what.sinks->next = next;
  }
  const std::uint64_t dispatches = list.dispatches() - before;
  partial_sums_.record(list, kernels.combine, table, target);
  return dispatches;
}

std::uint64_t GatherSet::record(CommandList& list, Pass pass, const Operands& operands,
                                SumTarget target, ValueSinks* sinks) {
  const bool predicated = operands.scalars != nullptr;
  BindingTable bindings = bind_operands(operands);
  if (sinks != nullptr) bind_sinks(bindings, *sinks);
  return run(list, {pass, false, predicated, operands.seeds_stride, sinks}, bindings, target);
}

std::optional<std::size_t> GatherSet::lead() const {
  if (plan_.of_terms) return std::nullopt;
  const auto found = std::ranges::find(block_slot_entries_, view_.batch->size());
  if (found == block_slot_entries_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - block_slot_entries_.begin());
}

std::uint64_t GatherSet::most_costs() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts_)
    sum += most_value_sums(context_, part.items, context_.workgroup_size, !part.light);
  return sum;
}

bool GatherSet::can_fuse() const {
  return parts_.size() == 1 && parts_[0].light && parts_[0].items <= context_.max_invocations();
}

const LoadedKernel& GatherSet::fused_kernel(const CommandList& list, codegen::Fusion fusion,
                                            const FusedTerms* fused_terms) {
  return serving_kernel(context_, list, fused_kernels_[fusion], *view_.numbers, [&] {
    codegen::KernelRequest request =
        gather_request(view_.shape, Pass::jtjp, plan_.block_slots, plan_.block_width);
    request.name += "_fused";
    request.fusion = fusion;
    if (fused_terms != nullptr) {
      for (codegen::GatherSlot& block_slot : fused_terms->block_slots(Pass::jtjp)) {
        request.block_slots.push_back(std::move(block_slot));
      }
    }
    request.dense_blocks = dense_;
    return request;
  });
}

std::uint32_t GatherSet::record_fused(CommandList& list, codegen::Fusion fusion,
                                      const Operands& operands, const FusedOperands& fused,
                                      SumTarget target) {
  const LoadedKernel& kernel = fused_kernel(list, fusion, fused.fused_terms);
  const Part& part = parts_[0];
  BindingTable table = bind_operands(operands);
  table.set(BufferRole::starts, part.starts);
  table.set(BufferRole::owners, part.blocks);
  table.set(BufferRole::outputs, part.outputs);
  columns_.bind(table, part.columns);
  table.set({.instances_per_item = instances_per_item(part)});
  table.set(BufferRole::results, *target.out);
  table.set(BufferRole::preconditioned, *fused.preconditioned);
  table.set(BufferRole::damping, *fused.damping);
  table.set(BufferRole::next_direction, *fused.next_direction);
  table.set(BufferRole::partials, *fused.partials);
  table.set(BufferRole::decision, *fused.decision);
  table.set(BufferRole::curvature, *fused.curvature);
  if (fused.fused_terms != nullptr) fused.fused_terms->bind(table);
  const codegen::PushConstants push{
      .count = part.items,
      .stride = part.columns.count,
      .out_first = static_cast<std::uint32_t>(target.first),
      .x_first = static_cast<std::uint32_t>(plan_.x_first),
      .overwrite = target.overwrite,
      .sums_count = fused.sums_count,
      .sums_stride = fused.sums_count,
      .curvature_first = fused.curvature_first,
      .fused_stride = fused.fused_terms == nullptr ? 0 : fused.fused_terms->stride()};
  const std::uint32_t groups = context_.product_grid(part.items);
  dispatch(context_, list, kernel, table, push, groups);
  return groups;
}

void GatherSet::record_stored(CommandList& list, Pass pass, const Buffer& terms,
                              std::uint32_t stride, const Operands& operands, SumTarget target) {
  const bool predicated = operands.scalars != nullptr;
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::terms, terms);
  run(list, {pass, true, predicated, stride}, bindings, target);
}

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
  ir::parallel_pieces(at.size(), 1 << 14, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) out[k] = source[at[k]];
  });
}

}  // namespace

GatherColumns::GatherColumns(Context& context, const BatchView& view, const GatherPlan& plan)
    : context_(context), view_(view), plan_(plan) {
  if (plan.of_terms) return;
  const codegen::ColumnLayout& layout = view.shape.layout;
  block_slot_columns_ =
      entry_columns(layout, view.shape.groups, plan.block_slots, view.shape.flexible);
  for (std::size_t r = 0; r < plan.block_slots.size(); ++r) {
    block_slot_forms_.push_back(find_entry_forms(*view.batch, layout, block_slot_columns_[r],
                                                 view.shape.groups[plan.block_slots[r]]));
    const auto stored = std::ranges::count(block_slot_forms_.back(), true, &EntryForm::stored);
    columns_ = std::max(columns_, static_cast<std::uint32_t>(stored));
  }
}

std::uint64_t GatherColumns::most_entries() const {
  const std::uint64_t bytes = std::max<std::uint64_t>(
      {4ull * columns_, 4ull,
       std::uint64_t{context_.element_bytes()} * view_.shape.layout.data_columns});
  std::uint64_t shared = view_.shape.layout.data_columns;
  for (const std::vector<EntryForm>& forms : block_slot_forms_) shared += forms.size();
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

/// Words by form. The stored columns of a block slot are the first ones, in their order.
void GatherColumns::place_index(Piece& piece) const {
  std::uint32_t position = columns_ * piece.count;
  for (std::size_t r = 0; r < block_slot_columns_.size(); ++r) {
    std::uint32_t stored = block_slot_columns_[r].fixed;
    for (std::size_t c = block_slot_columns_[r].fixed; c < block_slot_forms_[r].size(); ++c) {
      const EntryForm& form = block_slot_forms_[r][c];
      piece.words.index.push_back(form.stored ? codegen::form_by_row(stored++ * piece.count)
                                              : codegen::form_shared(position++));
      piece.words.step.push_back(form.stored ? 0 : form.step);
    }
  }
}

/// Entries of a block slot read that block slot's columns; block slots of one block are neighbours.
ir::UnsetVector<std::uint32_t> GatherColumns::entry_indices(const Piece& piece) const {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  std::map<std::uint32_t, ir::UnsetVector<std::uint32_t>> sources;  // by column of the layout
  std::vector<std::vector<const std::uint32_t*>> of_block_slot(block_slot_columns_.size());
  std::vector<std::uint32_t> shared;
  for (std::size_t r = 0; r < block_slot_columns_.size(); ++r) {
    for (std::size_t c = 0; c < block_slot_forms_[r].size(); ++c) {
      const std::uint32_t column = block_slot_columns_[r].index_columns[c];
      if (!block_slot_forms_[r][c].stored) {
        shared.push_back(block_slot_forms_[r][c].base);
        continue;
      }
      auto& source = sources[column];
      if (source.empty()) source = whole_column<std::uint32_t>(*view_.batch, stored.index[column]);
      of_block_slot[r].push_back(source.data());
    }
  }
  ir::UnsetVector<std::uint32_t> columns(std::size_t{columns_} * piece.count + shared.size());
  const std::span<const std::uint32_t> at = instances(piece);
  const std::uint32_t first = piece.first, last = first + piece.count;
  ir::parallel_pieces(plan_.starts.size() - 1, 1 << 13, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const std::uint32_t from = std::max(plan_.starts[k], first) - first;
      const std::uint32_t to = std::max(std::min(plan_.starts[k + 1], last), first) - first;
      std::uint32_t* out = columns.data();
      for (const std::uint32_t* source : of_block_slot[k % of_block_slot.size()]) {
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

namespace {

/// Numbers of a buffer are bound from multiples of this on.
constexpr std::uint64_t kOutAlignment = 64;

}  // namespace

BindingTable bind_operands(const Operands& operands) {
  BindingTable made;
  const auto set = [&](BufferRole role, const Buffer* buffer) {
    if (buffer != nullptr) made.set(role, *buffer);
  };
  set(BufferRole::x, operands.x);
  set(BufferRole::direction, operands.direction);
  set(BufferRole::seeds, operands.seeds);
  set(BufferRole::uniforms, operands.uniforms);
  set(BufferRole::scalars, operands.scalars);
  set(BufferRole::failures, operands.failures);
  return made;
}

void bind_sinks(BindingTable& table, const ValueSinks& sinks) {
  table.set(BufferRole::costs, *sinks.costs);
  if (sinks.rows != nullptr) table.set(BufferRole::rows, *sinks.rows);
}

std::uint64_t most_blocks(const Context& context, std::uint32_t width, bool scalars) {
  // A scalar's offset among packed triangles of blocks up to the greatest width.
  const std::uint64_t sums = scalars                            ? (codegen::kMaxBlockWidth + 2) / 2
                             : width <= codegen::kMaxBlockWidth ? width * (width + 1) / 2
                                                                : width;
  constexpr std::uint64_t kSlack = 4 * kOutAlignment;
  const std::uint64_t numbers = context.max_range() / context.element_bytes();
  return numbers <= kSlack + sums ? 1 : (numbers - kSlack) / sums;
}

std::uint32_t bind_target(const Context& context, BindingTable& table, const SumTarget& target,
                          std::uint32_t sums, std::uint32_t first_output,
                          std::uint32_t last_output) {
  const std::uint64_t bytes = context.element_bytes();
  if (target.out->size() <= context.max_range()) {
    table.set(BufferRole::results, *target.out);
    return static_cast<std::uint32_t>(target.first);
  }
  std::uint64_t first = target.first + std::uint64_t{first_output} * sums;
  std::uint64_t last = target.first + std::uint64_t{last_output} * sums + sums;
  if (target.positions != nullptr) {
    first = (*target.positions)[first_output];
    last = (*target.positions)[last_output] + 1;
  }
  first = first / kOutAlignment * kOutAlignment;
  table.set(BufferRole::results, *target.out, first * bytes, (last - first) * bytes);
  return static_cast<std::uint32_t>(target.first - first);
}

PartialSums::PartialSums(Context& context, const GatherPlan& plan)
    : context_(context), partials_(plan.partials) {
  const std::uint64_t most_span = most_blocks(context, plan.block_width, plan.array == kScalars);
  std::uint64_t most = 0;
  for (const GatherPlan::Level& level : plan.levels) {
    for (std::size_t first = 0; first < level.target.size();) {
      std::size_t last = first + 1;
      while (last < level.target.size() &&
             (!level.to_blocks || level.target[last] - level.target[first] < most_span)) {
        ++last;
      }
      add_level(level, first, last);
      first = last;
    }
    for (std::size_t k = 0; k < level.first.size(); k += 2)
      most = std::max<std::uint64_t>(most, level.first[k + 1] - level.first[k]);
  }
  workgroup_size_ = context_.item_workgroup_size(context_.is_part() ? kSegment : most);
}

void PartialSums::add_level(const GatherPlan::Level& level, std::size_t first, std::size_t last) {
  Level part{.to_blocks = level.to_blocks};
  std::vector<std::uint32_t> starts = {0};
  for (std::size_t k = first; k < last; ++k) {
    for (std::uint32_t p = level.first[2 * k]; p < level.first[2 * k + 1]; ++p) {
      part.partials.push_back(p);
    }
    starts.push_back(static_cast<std::uint32_t>(part.partials.size()));
  }
  const auto targets = std::span(level.target).subspan(first, last - first);
  part.targets.assign(targets.begin(), targets.end());
  part.starts = make_buffer(context_, starts, "level_starts");
  part.blocks = make_buffer(context_, targets, "level_owners");
  part.outputs = make_buffer(context_, targets, "level_outputs");
  levels_.push_back(std::move(part));
}

PartialSums::Pass PartialSums::make_pass(std::uint32_t sums, bool predicated) {
  Pass pass{.sums = sums};
  if (levels_.empty()) return pass;
  codegen::KernelRequest request = combine_request(sums);
  request.predicated = predicated;
  request.workgroup_size = workgroup_size_;
  pass.combine = load_kernel(context_, std::move(request));
  for (Buffer& buffer : pass.partials)
    buffer = make_numbers(context_, std::uint64_t{partials_} * sums, "partials");
  for (Level& level : levels_) {
    if (level.entries.contains(sums)) continue;
    std::vector<std::uint32_t> positions = level.partials;
    for (std::uint32_t& p : positions) p *= sums;
    level.entries.emplace(sums, make_buffer(context_, positions, "partial_entries"));
  }
  return pass;
}

void PartialSums::record(CommandList& list, const Pass& pass, BindingTable table,
                         const SumTarget& target) const {
  std::size_t source = 0;
  for (const Level& level : levels_) {
    list.barrier();
    const bool placed = level.to_blocks && target.positions != nullptr;
    table.set(BufferRole::starts, level.starts);
    table.set(BufferRole::owners, level.blocks);
    table.set(BufferRole::outputs, placed ? level.placed_outputs : level.outputs);
    table.set(BufferRole::entries, level.entries.at(pass.sums));
    table.set(BufferRole::terms, pass.partials[source]);
    codegen::PushConstants push;
    push.out_stride = 1;
    if (level.to_blocks) {
      push.out_first = bind_target(context_, table, target, pass.sums, level.targets.front(),
                                   level.targets.back());
    } else {
      table.set(BufferRole::results, pass.partials[1 - source]);
    }
    push.overwrite = !level.to_blocks || target.overwrite;
    dispatch_all(context_, list, pass.combine, table, push, level.targets.size());
    if (!level.to_blocks) source = 1 - source;
  }
}

void PartialSums::place_outputs(const std::vector<std::uint32_t>& positions) {
  for (Level& level : levels_) {
    if (!level.to_blocks || level.placed_outputs) continue;
    std::vector<std::uint32_t> sum_positions = level.targets;
    for (std::uint32_t& sum_position : sum_positions) sum_position = positions[sum_position];
    level.placed_outputs = make_buffer(context_, sum_positions, "level_placed_outputs");
  }
}

namespace {

/// Blocks to an entry: with fewer of them, most invocations would take the detour.
constexpr std::uint64_t kBlocksOfEntry = 8;

}  // namespace

bool FusedTerms::can_fuse(const GatherSet& set, const Model& model) {
  return set.array() != kScalars && set.can_fuse() && !set.view().batch->has_resident() &&
         set.entries() * kBlocksOfEntry < model.arrays[set.array()].blocks;
}

FusedTerms::FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model)
    : context_(context), block_width_(sets[0]->block_width()) {
  for (const GatherSet* set : sets) add(*set, model);
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.block, a.block_slot) < std::pair(b.block, b.block_slot);
  });
  upload_blocks(model.arrays[sets[0]->array()].blocks);
  upload_indices();
  refresh_data();
}

void FusedTerms::add(const GatherSet& set, const Model& model) {
  // The general layout: a few columns more cost nothing here, and a kernel fits any instances.
  TermShape shape = set.view().shape;
  shape.layout = codegen::general_layout(shape.topology->program.leaves);
  const ir::Batch& batch = *set.view().batch;
  for (const GatherPlan& plan : invert(batch, shape.groups, model.arrays, model.scalars)) {
    if (plan.array != set.array()) continue;
    const auto first = static_cast<std::uint32_t>(block_slots_.size());
    const std::size_t block_slots = plan.block_slots.size();
    for (std::uint32_t group : plan.block_slots) block_slots_.push_back({shape, &batch, group});
    for (std::size_t k = 0; k + 1 < plan.starts.size(); ++k) {
      const auto block_slot = first + static_cast<std::uint32_t>(k % block_slots);
      for (std::uint32_t e = plan.starts[k]; e < plan.starts[k + 1]; ++e) {
        entries_.push_back({plan.blocks[k / block_slots], block_slot, plan.instances[e]});
      }
    }
  }
}

void FusedTerms::upload_blocks(std::uint64_t blocks) {
  std::vector<std::uint32_t> words((blocks + 31) / 32 * 2, 0), starts;
  std::uint32_t items = 0;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    if (e == 0 || entries_[e - 1].block != entry.block) {
      words[2 * (entry.block / 32)] |= 1u << (entry.block % 32);
      starts.resize((std::size_t{++items}) * block_slots_.size(), 0);
    }
    ++starts[(items - 1) * block_slots_.size() + entry.block_slot];
  }
  starts.push_back(0);
  std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), 0u);
  std::uint32_t before = 0;
  for (std::size_t k = 0; k < words.size(); k += 2) {
    words[k + 1] = before;
    before += static_cast<std::uint32_t>(std::popcount(words[k]));
  }
  blocks_ = make_buffer(context_, words, "fused_owners");
  starts_ = make_buffer(context_, starts, "fused_starts");
}

void FusedTerms::upload_indices() {
  std::vector<EntryColumns> columns;
  std::uint32_t most = 0;
  for (const BlockSlot& block_slot : block_slots_) {
    columns.push_back(
        entry_columns(block_slot.shape.layout, block_slot.shape.groups[block_slot.group]));
    most = std::max(most, columns.back().layout.index_columns);
  }
  const std::size_t n = entries_.size();
  std::vector<std::uint32_t> index(std::size_t{most} * n, 0);
  for (std::size_t e = 0; e < n; ++e) {
    const Entry& entry = entries_[e];
    const std::vector<std::uint32_t>& stored = columns[entry.block_slot].index_columns;
    for (std::size_t c = 0; c < stored.size(); ++c) {
      // In the general layout, stored columns are the batch's.
      index[c * n + e] = block_slots_[entry.block_slot].batch->index(entry.instance, stored[c]);
    }
  }
  index_ = make_buffer(context_, index, "fused_index");
}

void FusedTerms::refresh_data() {
  std::uint32_t most = 0;
  for (const BlockSlot& block_slot : block_slots_)
    most = std::max(most, block_slot.shape.layout.data_columns);
  const std::size_t n = entries_.size();
  std::vector<double> data(std::size_t{most} * n, 0.0);
  for (std::size_t e = 0; e < n; ++e) {
    const BlockSlot& block_slot = block_slots_[entries_[e].block_slot];
    for (std::uint32_t c = 0; c < block_slot.shape.layout.data_columns; ++c) {
      data[c * n + e] = block_slot.batch->data(entries_[e].instance, c);
    }
  }
  if (!data_) data_ = make_numbers(context_, data.size(), "fused_data");
  if (!data.empty()) write_numbers(context_, data_, data);
}

std::vector<codegen::GatherSlot> FusedTerms::block_slots(Pass pass) const {
  std::vector<codegen::GatherSlot> made;
  for (const BlockSlot& block_slot : block_slots_) {
    made.push_back(gather_slot(block_slot.shape, pass, block_slot.group, block_width_));
    made.back().is_fused = true;
  }
  return made;
}

void FusedTerms::bind(BindingTable& table) const {
  table.set(BufferRole::fused_owners, blocks_);
  table.set(BufferRole::fused_starts, starts_);
  table.set(BufferRole::fused_index_columns, index_);
  table.set(BufferRole::fused_data_columns, data_);
}

}  // namespace topograd::runtime::vulkan
