// Levels of partial sums, and their recording.
#include "partial_sums.hpp"

#include "../../plan/requests.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

PartialSums::PartialSums(Context& context, const GatherPlan& plan)
    : context_(context), partials_(plan.partials) {
  const std::uint64_t most_span = most_owners(context, plan.owner_width, plan.array == kScalars);
  std::uint64_t most = 0;
  for (const GatherPlan::Level& level : plan.levels) {
    for (std::size_t first = 0; first < level.target.size();) {
      std::size_t last = first + 1;
      while (last < level.target.size() &&
             (!level.to_owners || level.target[last] - level.target[first] < most_span)) {
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
  Level part{.to_owners = level.to_owners};
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
  part.owners = make_buffer(context_, targets, "level_owners");
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
    const bool placed = level.to_owners && target.positions != nullptr;
    table.set(BufferRole::starts, level.starts);
    table.set(BufferRole::owners, level.owners);
    table.set(BufferRole::outputs, placed ? level.placed_outputs : level.outputs);
    table.set(BufferRole::entries, level.entries.at(pass.sums));
    table.set(BufferRole::terms, pass.partials[source]);
    codegen::PushConstants push;
    push.out_stride = 1;
    if (level.to_owners) {
      push.out_first = bind_target(context_, table, target, pass.sums, level.targets.front(),
                                   level.targets.back());
    } else {
      table.set(BufferRole::results, pass.partials[1 - source]);
    }
    push.overwrite = !level.to_owners || target.overwrite;
    dispatch_all(context_, list, pass.combine, table, push, level.targets.size());
    if (!level.to_owners) source = 1 - source;
  }
}

void PartialSums::place_outputs(const std::vector<std::uint32_t>& positions) {
  for (Level& level : levels_) {
    if (!level.to_owners || level.placed_outputs) continue;
    std::vector<std::uint32_t> places = level.targets;
    for (std::uint32_t& place : places) place = positions[place];
    level.placed_outputs = make_buffer(context_, places, "level_placed_outputs");
  }
}

}  // namespace topograd::runtime::vulkan
