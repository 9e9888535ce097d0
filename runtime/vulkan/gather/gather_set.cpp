// Parts and kernels of gather passes, and their recording.
#include "gather_set.hpp"

#include "../../../ir/error.hpp"
#include "fused_terms.hpp"

#include <algorithm>
#include <numeric>

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
           counts_up(plan_.owners) && counts_up(plan_.outputs);
  choose_workgroups();
  role_entries_.resize(plan_.roles.size());
  for (std::size_t k = 0; k + 1 < plan_.starts.size(); ++k)
    role_entries_[k % plan_.roles.size()] += plan_.starts[k + 1] - plan_.starts[k];
  // Only what a change of data needs stays on the host.
  plan_.starts = {};
  plan_.owners = {};
  plan_.outputs = {};
}

void GatherSet::cut_into_parts() {
  const auto roles = static_cast<std::uint32_t>(plan_.roles.size());
  const auto items = static_cast<std::uint32_t>(plan_.owners.size());
  const std::uint64_t most_entries = columns_.most_entries();
  const std::uint64_t most_items = context_.max_range() / (4 * (roles + 1));
  const std::uint64_t most_span = most_owners(context_, plan_.owner_width, plan_.array == kScalars);
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
  const std::uint32_t first_entry = plan_.starts[first_item * roles];
  std::vector<std::uint32_t> starts(plan_.starts.begin() + first_item * roles,
                                    plan_.starts.begin() + last_item * roles + 1);
  for (std::uint32_t& s : starts) s -= first_entry;
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
  part.columns = columns_.upload(first_entry, plan_.starts[last_item * roles] - first_entry);
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
    std::vector<std::uint32_t> places = part.item_outputs;
    for (std::uint32_t& place : places) place = positions[place];
    part.placed_outputs = make_buffer(context_, places, view_.shape.name + "_placed_outputs");
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
      : stored_terms
          ? sum_terms_request(view_.shape, pass, plan_.roles, plan_.owner_width)
          : gather_request(view_.shape, pass, plan_.roles, plan_.owner_width, lead().value_or(0));
  made.dense_owners = dense_;
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
    const std::uint32_t sums = sums_of_owner(what.pass, plan_.owner_width);
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

/// Its entries are evaluated for one role each.
double GatherSet::instances_per_item(const Part& part) const {
  const double entries = part.columns.count;
  return entries / static_cast<double>(std::max<std::size_t>(plan_.roles.size(), 1) *
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
    table.set(BufferRole::owners, part.owners);
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
  const auto found = std::ranges::find(role_entries_, view_.batch->size());
  if (found == role_entries_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - role_entries_.begin());
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
        gather_request(view_.shape, Pass::jtjp, plan_.roles, plan_.owner_width);
    request.name += "_fused";
    request.fusion = fusion;
    if (fused_terms != nullptr) {
      for (codegen::GatherRole& role : fused_terms->roles(Pass::jtjp)) {
        request.roles.push_back(std::move(role));
      }
    }
    request.dense_owners = dense_;
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
  table.set(BufferRole::owners, part.owners);
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

}  // namespace topograd::runtime::vulkan
