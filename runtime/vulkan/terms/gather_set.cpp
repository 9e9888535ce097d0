// Recording of gather passes.
#include "gather_set.hpp"

#include "../../../ir/error.hpp"
#include "riders.hpp"

#include <algorithm>
#include <numeric>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// Numbers of a buffer are bound from multiples of this on.
constexpr std::uint64_t kOutAlignment = 64;

/// 0, 1, 2, ...
bool counts_up(std::span<const std::uint32_t> values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (values[k] != k) return false;
  }
  return true;
}

}  // namespace

GatherSet::GatherSet(Context& context, const BatchView& view, GatherPlan plan)
    : context_(context), view_(view), plan_(std::move(plan)) {
  if (!plan_.of_terms) find_columns();
  cut_into_parts();
  dense_ = plan_.array != kScalars && parts_.size() == 1 && parts_[0].light &&
           counts_up(plan_.owners) && counts_up(plan_.outputs);
  add_levels();
  choose_workgroups();
  role_entries_.resize(plan_.roles.size());
  for (std::size_t k = 0; k + 1 < plan_.starts.size(); ++k)
    role_entries_[k % plan_.roles.size()] += plan_.starts[k + 1] - plan_.starts[k];
  // What stays on the host is what a change of data needs.
  plan_.starts = {};
  plan_.owners = {};
  plan_.outputs = {};
}

void GatherSet::choose_workgroups() {
  std::uint64_t items = 0, entries = 0, most = 0;
  for (const Part& part : parts_) {
    if (part.light) continue;
    items += part.items;
    entries += part.entries;
  }
  for (const GatherPlan::Level& level : plan_.levels) {
    for (std::size_t k = 0; k < level.first.size(); k += 2)
      most = std::max<std::uint64_t>(most, level.first[k + 1] - level.first[k]);
  }
  constexpr std::uint64_t kMostEntries = 256;  // larger workgroups hold too many registers
  if (items > 0)
    heavy_size_ = context_.item_workgroup_size(std::min(entries / items, kMostEntries));
  combine_size_ = context_.item_workgroup_size(most);
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

GatherSet::Kernels GatherSet::make_kernels(Pass pass, bool predicated) {
  Kernels kernels;
  if (levels_.empty()) return kernels;
  const std::uint32_t sums = sums_of_owner(pass, plan_.owner_width);
  codegen::KernelRequest combine = combine_request(sums);
  combine.predicated = predicated;
  combine.workgroup_size = combine_size_;
  kernels.combine = load_kernel(context_, std::move(combine));
  for (Buffer& buffer : kernels.partials) {
    buffer = make_numbers(context_, std::uint64_t{plan_.partials} * sums, "partials");
  }
  for (LevelPart& level : levels_) {
    if (level.entries.contains(sums)) continue;
    std::vector<std::uint32_t> positions = level.partials;
    for (std::uint32_t& p : positions) p *= sums;
    level.entries.emplace(sums, make_buffer(context_, positions, "partial_entries"));
  }
  return kernels;
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

void GatherSet::need(Needs& needs, Pass pass, bool stored_terms, bool predicated) {
  const std::tuple key(pass, stored_terms, predicated);
  if (stored_terms || pass == Pass::vjp || pass == Pass::values) upload_instances();
  if (!kernels_.contains(key)) kernels_.emplace(key, make_kernels(pass, predicated));
  Kernels& kernels = kernels_.at(key);
  if (kernels.combine) needs.add(kernels.combine);
  for (const bool heavy : {false, true}) {
    if (!(heavy ? has_heavy() : has_light())) continue;
    needs.add(declare_kernel(context_, heavy ? kernels.heavy : kernels.sum,
                             stored_terms ? SharedNumbers{} : *view_.numbers, [&] {
                               codegen::KernelRequest made = request(pass, stored_terms, heavy);
                               made.predicated = predicated;
                               return made;
                             }));
  }
}

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

std::uint64_t GatherSet::most_owners() const {
  const std::uint32_t width = plan_.owner_width;
  // A scalar's place among packed triangles of blocks up to the greatest width.
  const std::uint64_t sums = plan_.array == kScalars            ? (codegen::kMaxBlockWidth + 2) / 2
                             : width <= codegen::kMaxBlockWidth ? width * (width + 1) / 2
                                                                : width;
  constexpr std::uint64_t kSlack = 4 * kOutAlignment;
  const std::uint64_t numbers = context_.max_range() / context_.element_bytes();
  return numbers <= kSlack + sums ? 1 : (numbers - kSlack) / sums;
}

std::uint32_t GatherSet::bind_out(BindingTable& table, const SumTarget& target, std::uint32_t sums,
                                  std::uint32_t first_output, std::uint32_t last_output) const {
  const std::uint64_t bytes = context_.element_bytes();
  if (target.out->size() <= context_.max_range()) {
    table.set(BufferRole::out, *target.out);
    return static_cast<std::uint32_t>(target.first);
  }
  std::uint64_t first = target.first + std::uint64_t{first_output} * sums;
  std::uint64_t last = target.first + std::uint64_t{last_output} * sums + sums;
  if (target.positions != nullptr) {
    first = (*target.positions)[first_output];
    last = (*target.positions)[last_output] + 1;
  }
  first = first / kOutAlignment * kOutAlignment;
  table.set(BufferRole::out, *target.out, first * bytes, (last - first) * bytes);
  return static_cast<std::uint32_t>(target.first - first);
}

std::uint64_t GatherSet::run(CommandList& list, const Run& what, BindingTable& table,
                             SumTarget target) {
  const auto found = kernels_.find({what.pass, what.stored_terms, what.predicated});
  if (found == kernels_.end())
    throw Error(ErrorCode::Internal, "sums of pass " + std::string(name(what.pass)) + " of \"" +
                                         view_.shape.name +
                                         "\" are recorded, but were not declared");
  Kernels& kernels = found->second;
  const std::uint32_t sums = sums_of_owner(what.pass, plan_.owner_width);
  if (target.positions != nullptr) place_outputs(*target.positions);
  const std::uint64_t before = list.dispatches();
  for (Part& part : parts_) {
    const bool placed = part.direct && target.positions != nullptr;
    table.set(BufferRole::starts, part.starts);
    table.set(BufferRole::owners, part.owners);
    table.set(BufferRole::outputs, placed ? part.placed_outputs : part.outputs);
    table.set(BufferRole::entries, part.instances);
    bind_columns(table, part);
    codegen::PushConstants push;
    push.stride = part.entries;
    push.out_stride = what.out_stride;
    push.x_first = static_cast<std::uint32_t>(plan_.x_first);
    push.overwrite = !part.direct || target.overwrite;
    if (part.direct) {
      push.out_first = bind_out(table, target, sums, part.first_output, part.last_output);
    } else {
      table.set(BufferRole::out, kernels.partials[0]);
    }
    if (what.sinks != nullptr) {
      push.costs_first() = what.sinks->next;
      push.rows_stride() = static_cast<std::uint32_t>(view_.batch->size());
    }
    const std::uint32_t next = dispatch_all(
        context_, list, serving_kernel(context_, part.light ? kernels.sum : kernels.heavy), table,
        push, part.items);
    if (what.sinks != nullptr) what.sinks->next = next;
  }
  const std::uint64_t dispatches = list.dispatches() - before;
  combine(list, kernels, sums, table, target);
  return dispatches;
}

void GatherSet::combine(CommandList& list, Kernels& kernels, std::uint32_t sums, BindingTable table,
                        SumTarget target) {
  std::size_t source = 0;
  for (LevelPart& level : levels_) {
    list.barrier();
    const bool placed = level.to_owners && target.positions != nullptr;
    table.set(BufferRole::starts, level.starts);
    table.set(BufferRole::owners, level.owners);
    table.set(BufferRole::outputs, placed ? level.placed_outputs : level.outputs);
    table.set(BufferRole::entries, level.entries.at(sums));
    table.set(BufferRole::terms, kernels.partials[source]);
    codegen::PushConstants push;
    push.out_stride = 1;
    if (level.to_owners) {
      push.out_first = bind_out(table, target, sums, level.first_output, level.last_output);
    } else {
      table.set(BufferRole::out, kernels.partials[1 - source]);
    }
    push.overwrite = !level.to_owners || target.overwrite;
    dispatch_all(context_, list, kernels.combine, table, push, level.items);
    if (!level.to_owners) source = 1 - source;
  }
}

std::uint64_t GatherSet::record(CommandList& list, Pass pass, const Operands& operands,
                                SumTarget target, ValueSinks* sinks) {
  const bool predicated = operands.scalars != nullptr;
  BindingTable bindings = bind_operands(operands);
  if (sinks != nullptr) bind_sinks(bindings, *sinks);
  return run(list, {pass, false, predicated, operands.seeds_stride, sinks}, bindings, target);
}

void bind_sinks(BindingTable& table, const ValueSinks& sinks) {
  table.set(BufferRole::costs, *sinks.costs);
  if (sinks.rows != nullptr) table.set(BufferRole::rows, *sinks.rows);
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

void GatherSet::need_fused(Needs& needs, codegen::Fusion fusion, const Riders* riders) {
  needs.add(declare_kernel(context_, fused_kernels_[fusion], *view_.numbers, [&] {
    codegen::KernelRequest request =
        gather_request(view_.shape, Pass::jtjp, plan_.roles, plan_.owner_width);
    request.name += "_fused";
    request.fusion = fusion;
    if (riders != nullptr) {
      for (codegen::GatherRole& role : riders->roles(Pass::jtjp)) {
        request.roles.push_back(std::move(role));
      }
    }
    request.dense_owners = dense_;
    return request;
  }));
}

std::uint32_t GatherSet::record_fused(CommandList& list, codegen::Fusion fusion,
                                      const Operands& operands, const FusedOperands& fused,
                                      SumTarget target) {
  const LoadedKernel& kernel = serving_kernel(context_, fused_kernels_[fusion]);
  const Part& part = parts_[0];
  BindingTable table = bind_operands(operands);
  table.set(BufferRole::starts, part.starts);
  table.set(BufferRole::owners, part.owners);
  table.set(BufferRole::outputs, part.outputs);
  bind_columns(table, part);
  table.set(BufferRole::out, *target.out);
  table.set(BufferRole::preconditioned, *fused.preconditioned);
  table.set(BufferRole::damping, *fused.damping);
  table.set(BufferRole::next_direction, *fused.next_direction);
  table.set(BufferRole::partials, *fused.partials);
  table.set(BufferRole::decision, *fused.decision);
  table.set(BufferRole::curvature, *fused.curvature);
  if (fused.riders != nullptr) fused.riders->bind(table);
  const codegen::PushConstants push{
      .count = part.items,
      .stride = part.entries,
      .out_first = static_cast<std::uint32_t>(target.first),
      .x_first = static_cast<std::uint32_t>(plan_.x_first),
      .overwrite = target.overwrite,
      .sums_count = fused.sums_count,
      .sums_stride = fused.sums_count,
      .curvature_first = fused.curvature_first,
      .rider_stride = fused.riders == nullptr ? 0 : fused.riders->stride()};
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
