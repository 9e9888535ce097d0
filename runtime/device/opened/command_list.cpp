// Recording of command lists.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "../../profile.hpp"
#include "core.hpp"

namespace topograd::runtime::vulkan {
namespace {

constexpr std::uint32_t kTimestampsPerPool = 64;

[[noreturn]] void refuse(const ListState& list, const std::string& message) {
  throw Error(ErrorCode::InvalidArgument, "command list \"" + list.name + "\": " + message);
}

// Returns the list if recording has not ended.
ListState& recording(const std::shared_ptr<ListState>& state, const char* call) {
  if (!state) {
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected a list, got none");
  }
  if (state->ended) refuse(*state, std::string(call) + " after it was submitted");
  state->core->driver.check_lost();
  return *state;
}

const BufferState& use(ListState& list, const char* call, const Buffer* buffer) {
  const auto& state = checked_state(call, *list.core, buffer);
  if (list.used.insert(state.get()).second) list.buffers.push_back(state);
  return *state;
}

void check_groups(const ListState& list, const KernelState& kernel, Groups groups) {
  const Limits& limits = list.core->info.limits;
  const struct {
    const char* axis;
    std::uint32_t got;
    std::uint32_t bound;
  } rows[] = {{"x", groups.x, limits.max_workgroups_x},
              {"y", groups.y, limits.max_workgroups_y},
              {"z", groups.z, limits.max_workgroups_z}};
  for (const auto& row : rows) {
    if (row.got >= 1 && row.got <= row.bound) continue;
    refuse(list, "dispatch of kernel \"" + kernel.name + "\": expected 1 to " +
                     std::to_string(row.bound) + " workgroups along " + row.axis + ", got " +
                     std::to_string(row.got));
  }
}

/// A binding with checked and completed size.
vk::DescriptorBufferInfo descriptor(ListState& list, const KernelState& kernel,
                                    const Binding& binding, std::size_t index) {
  const BufferState& buffer = use(list, "dispatch", binding.buffer);
  const Limits& limits = list.core->info.limits;
  const auto refuse_binding = [&](const std::string& why) {
    refuse(list, "dispatch of kernel \"" + kernel.name + "\": binding " + std::to_string(index) +
                     " (buffer \"" + buffer.name + "\"): " + why);
  };
  if (binding.offset % limits.storage_buffer_offset_alignment != 0) {
    refuse_binding("expected an offset in multiples of " +
                   std::to_string(limits.storage_buffer_offset_alignment) + ", got " +
                   std::to_string(binding.offset));
  }
  if (binding.offset >= buffer.size || binding.size > buffer.size - binding.offset) {
    refuse_binding("bytes " + std::to_string(binding.offset) + " + " +
                   std::to_string(binding.size) + " do not lie in its " +
                   std::to_string(buffer.size) + " bytes");
  }
  const std::uint64_t size = binding.size == 0 ? buffer.size - binding.offset : binding.size;
  if (size > limits.max_storage_buffer_range) {
    refuse_binding("expected at most " + std::to_string(limits.max_storage_buffer_range) +
                   " bytes (maxStorageBufferRange), got " + std::to_string(size));
  }
  return {*buffer.slot.buffer, binding.offset, size};
}

vk::DescriptorSet allocate_set(ListState& list, const KernelState& kernel) {
  Core& core = *list.core;
  if (list.descriptors.sets_left == 0 ||
      list.descriptors.descriptors_left < kernel.storage_buffers) {
    const std::uint32_t descriptors = std::max(kDescriptorsPerPool, kernel.storage_buffers);
    const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, descriptors);
    const vk::DescriptorPoolCreateInfo info({}, kSetsPerPool, size);
    list.descriptors.pools.push_back(core.driver.call(
        "vkCreateDescriptorPool", [&] { return core.device.createDescriptorPool(info); }));
    core.set_name(list.descriptors.pools.back(), list.name);
    list.descriptors.sets_left = kSetsPerPool;
    list.descriptors.descriptors_left = descriptors;
  }
  const vk::DescriptorSetAllocateInfo info(*list.descriptors.pools.back(), kernel.set_layout);
  auto sets = core.driver.call("vkAllocateDescriptorSets",
                               [&] { return vk::raii::DescriptorSets(core.device, info); });
  --list.descriptors.sets_left;
  list.descriptors.descriptors_left -= kernel.storage_buffers;
  // Freed with its pool, which was made without the flag to free single sets.
  return sets.front().release();
}

// Returns the set for these bindings; a list makes equal ones once.
vk::DescriptorSet find_set(ListState& list, const KernelState& kernel,
                           std::span<const vk::DescriptorBufferInfo> infos) {
  Hash128 key;
  for (const vk::DescriptorBufferInfo& info : infos) {
    key.add(reinterpret_cast<std::uint64_t>(static_cast<VkBuffer>(info.buffer)));
    key.add(info.offset);
    key.add(info.range);
  }
  const auto found = list.descriptors.sets.find(key);
  if (found != list.descriptors.sets.end()) return found->second;
  const vk::DescriptorSet set = allocate_set(list, kernel);
  thread_local std::vector<vk::WriteDescriptorSet> writes;
  writes.clear();
  for (std::uint32_t i = 0; i < infos.size(); ++i) {
    writes.emplace_back(set, i, 0, 1, vk::DescriptorType::eStorageBuffer, nullptr, &infos[i]);
  }
  list.core->device.updateDescriptorSets(writes, {});
  list.descriptors.sets.emplace(key, set);
  return set;
}

void check_counts(const ListState& list, const KernelState& kernel, std::size_t bindings,
                  std::size_t push) {
  const auto refuse_count = [&](std::size_t expected, const char* what, std::size_t got) {
    refuse(list, "dispatch of kernel \"" + kernel.name + "\": expected " +
                     std::to_string(expected) + what + std::to_string(got));
  };
  if (bindings != kernel.storage_buffers)
    refuse_count(kernel.storage_buffers, " bindings, got ", bindings);
  if (push != kernel.push_constant_bytes)
    refuse_count(kernel.push_constant_bytes, " bytes of push constants, got ", push);
}

// Records everything of a dispatch but the dispatch.
void bind(ListState& list, const Kernel& kernel, std::span<const Binding> bindings,
          std::span<const std::byte> push) {
  if (!kernel) refuse(list, "dispatch: expected a kernel, got none");
  const KernelState& state = kernel.state();
  if (state.core != list.core)
    refuse(list, "dispatch of kernel \"" + state.name + "\": it is of another device");
  check_counts(list, state, bindings.size(), push.size());
  thread_local std::vector<vk::DescriptorBufferInfo> infos;
  infos.clear();
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    infos.push_back(descriptor(list, state, bindings[i], i));
  }
  constexpr auto kPoint = vk::PipelineBindPoint::eCompute;
  if (!state.recorded.exchange(true)) list.first_runs += state.first_runs;
  if (list.bound_kernel != &state) {
    list.commands.bindPipeline(kPoint, *state.pipeline);
    // A set stays bound only across pipelines with one layout.
    if (list.bound_kernel == nullptr || list.bound_kernel->layout != state.layout) {
      list.bound_set = vk::DescriptorSet{};
    }
    list.bound_kernel = &state;
  }
  if (!infos.empty()) {
    const vk::DescriptorSet set = find_set(list, state, infos);
    if (set != list.bound_set) {
      list.commands.bindDescriptorSets(kPoint, state.layout, 0, set, {});
    }
    list.bound_set = set;
  }
  if (!push.empty()) {
    list.commands.pushConstants<std::byte>(state.layout, vk::ShaderStageFlagBits::eCompute, 0,
                                           {static_cast<std::uint32_t>(push.size()), push.data()});
  }
}

/// Every dispatch ends here.
void count_dispatch(ListState& list, const Kernel& kernel) {
  ++list.transfers.dispatches;
  if (!list.profile) return;
  ProfileStamps& stamps = *list.profile;
  ProfileStamps::Work work = stamps.next ? *std::exchange(stamps.next, std::nullopt)
                                         : ProfileStamps::Work{kernel.name(), {}};
  stamps.after(list, std::move(work), std::exchange(stamps.next_bytes, 0));
}

}  // namespace

CommandList::CommandList(std::shared_ptr<Core> core, std::shared_ptr<ListState> state)
    : core_(std::move(core)), state_(std::move(state)) {}

// The state is destroyed before the device to which it points.
CommandList& CommandList::operator=(CommandList&& other) noexcept {
  if (this == &other) return *this;
  state_ = std::move(other.state_);
  core_ = std::move(other.core_);
  declared_ = other.declared_;
  declares_conditional_ = other.declares_conditional_;
  return *this;
}

CommandList::~CommandList() = default;

void CommandList::dispatch(const Kernel& kernel, std::span<const Binding> bindings,
                           std::span<const std::byte> push, Groups groups) {
  ListState& list = recording(state_, "dispatch");
  if (kernel) check_groups(list, kernel.state(), groups);
  if (list.conditional.is_open) {
    const std::uint64_t offset =
        list.conditional.groups.size() * sizeof(vk::DispatchIndirectCommand);
    list.conditional.groups.push_back(groups);
    if (list.conditional.counts == nullptr && list.profile) list.profile->next.reset();
    if (list.conditional.counts != nullptr)
      dispatch_indirect(kernel, bindings, push, *list.conditional.counts, offset);
    return;
  }
  bind(list, kernel, bindings, push);
  list.commands.dispatch(groups.x, groups.y, groups.z);
  count_dispatch(list, kernel);
}

void CommandList::dispatch_indirect(const Kernel& kernel, std::span<const Binding> bindings,
                                    std::span<const std::byte> push, const Buffer& counts,
                                    std::uint64_t offset) {
  ListState& list = recording(state_, "dispatch_indirect");
  const BufferState& buffer = use(list, "dispatch_indirect", &counts);
  check_range("dispatch_indirect", buffer, offset, sizeof(vk::DispatchIndirectCommand));
  if (offset % 4 != 0) {
    refuse(list, "dispatch_indirect: expected an offset in multiples of 4, got " +
                     std::to_string(offset));
  }
  bind(list, kernel, bindings, push);
  if (!list.conditional.is_open) record_indirect_barrier(list.commands);
  list.commands.dispatchIndirect(*buffer.slot.buffer, offset);
  count_dispatch(list, kernel);
}

void CommandList::open_conditional(const Buffer* counts) {
  if (declared_ != nullptr) {
    declares_conditional_ = true;
    return;
  }
  ListState& list = recording(state_, "open_conditional");
  if (list.conditional.is_open)
    refuse(list, "open_conditional before close_conditional of another one");
  if (counts != nullptr) record_indirect_barrier(list.commands);
  list.conditional.is_open = true;
  list.conditional.counts = counts;
  list.conditional.groups.clear();
}

std::vector<Groups> CommandList::close_conditional() {
  if (declared_ != nullptr) {
    declares_conditional_ = false;
    return {};
  }
  ListState& list = recording(state_, "close_conditional");
  if (!list.conditional.is_open) refuse(list, "close_conditional without open_conditional");
  list.conditional.is_open = false;
  return std::move(list.conditional.groups);
}

bool CommandList::in_conditional() const {
  return declares_conditional_ || (state_ && state_->conditional.is_open);
}

void CommandList::barrier() {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "barrier");
  if (list.conditional.is_open && list.conditional.counts == nullptr) return;
  record_barrier(list.commands);
}

void CommandList::copy(const Buffer& source, std::uint64_t source_offset, const Buffer& target,
                       std::uint64_t target_offset, std::uint64_t size) {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "copy");
  if (list.conditional.is_open) refuse(list, "copy: expected a dispatch in a conditional section");
  const BufferState& from = use(list, "copy", &source);
  const BufferState& to = use(list, "copy", &target);
  check_range("copy", from, source_offset, size);
  check_range("copy", to, target_offset, size);
  if (&from == &to && source_offset < target_offset + size &&
      target_offset < source_offset + size) {
    refuse(list, "copy: the ranges overlap in buffer \"" + from.name + "\"");
  }
  if (size == 0) return;
  list.commands.copyBuffer(*from.slot.buffer, *to.slot.buffer,
                           vk::BufferCopy(source_offset, target_offset, size));
  if (from.kind == MemoryKind::Upload) {
    ++list.transfers.uploads;
    list.transfers.bytes_up += size;
  }
  if (to.kind == MemoryKind::Readback) {
    ++list.transfers.readbacks;
    list.transfers.bytes_down += size;
  }
  if (list.profile) list.profile->after(list, {"copy", {}}, 2 * size);
}

void CommandList::fill(const Buffer& target, std::uint64_t offset, std::uint64_t size,
                       std::uint32_t value) {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "fill");
  if (list.conditional.is_open) refuse(list, "fill: expected a dispatch in a conditional section");
  const BufferState& buffer = use(list, "fill", &target);
  check_range("fill", buffer, offset, size);
  if (offset % 4 != 0 || size % 4 != 0) {
    refuse(list, "fill: expected offset and size in multiples of 4, got " + std::to_string(offset) +
                     " and " + std::to_string(size));
  }
  if (size == 0) return;
  list.commands.fillBuffer(*buffer.slot.buffer, offset, size, value);
  if (list.profile) list.profile->after(list, {"fill", {}}, size);
}

void CommandList::write_timestamp(std::string_view label) {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "write_timestamp");
  Core& core = *list.core;
  if (!core.info.features.timestamps) return;
  const auto index = static_cast<std::uint32_t>(list.timestamps.labels.size() % kTimestampsPerPool);
  if (index == 0) {
    if (auto spare = std::exchange(list.timestamps.spare_pool, std::nullopt)) {
      list.timestamps.pools.push_back(*std::move(spare));
    } else {
      const vk::QueryPoolCreateInfo info({}, vk::QueryType::eTimestamp, kTimestampsPerPool);
      list.timestamps.pools.push_back(
          core.driver.call("vkCreateQueryPool", [&] { return core.device.createQueryPool(info); }));
    }
    core.set_name(list.timestamps.pools.back(), list.name);
    list.commands.resetQueryPool(*list.timestamps.pools.back(), 0, kTimestampsPerPool);
  }
  list.commands.writeTimestamp(vk::PipelineStageFlagBits::eBottomOfPipe,
                               *list.timestamps.pools.back(), index);
  list.timestamps.labels.emplace_back(label);
}

void CommandList::begin_label(std::string_view label) {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "begin_label");
  ++list.open_labels;
  if (!list.core->instance->debug_utils()) return;
  const std::string text(label);
  list.commands.beginDebugUtilsLabelEXT(vk::DebugUtilsLabelEXT(text.c_str()));
}

void CommandList::end_label() {
  if (declared_ != nullptr) return;
  ListState& list = recording(state_, "end_label");
  if (list.open_labels == 0) refuse(list, "end_label without begin_label");
  --list.open_labels;
  if (list.core->instance->debug_utils()) list.commands.endDebugUtilsLabelEXT();
}

bool CommandList::takes_times() const { return state_ && state_->profile != nullptr; }

void CommandList::name_next(std::string_view name, std::string_view topology, std::uint64_t bytes) {
  if (!takes_times()) return;
  state_->profile->next = {std::string(name), std::string(topology)};
  state_->profile->next_bytes = bytes;
}

std::uint64_t CommandList::dispatches() const { return state_ ? state_->transfers.dispatches : 0; }

std::vector<Timestamp> CommandList::timestamps() const {
  if (!state_ || state_->last_value == 0) return {};
  Core& core = *core_;
  core.queue.wait(state_->last_value);
  const std::uint64_t mask =
      core.timestamp_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << core.timestamp_bits) - 1;
  std::vector<Timestamp> result;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < state_->timestamps.labels.size(); ++i) {
    const auto& pool = state_->timestamps.pools[i / kTimestampsPerPool];
    const auto [status, ticks] = core.driver.call("vkGetQueryPoolResults", [&] {
      return pool.getResult<std::uint64_t>(static_cast<std::uint32_t>(i % kTimestampsPerPool), 1,
                                           sizeof(std::uint64_t), vk::QueryResultFlagBits::e64);
    });
    if (status != vk::Result::eSuccess) return {};
    if (i == 0) first = ticks;
    const auto passed = static_cast<double>((ticks - first) & mask);
    result.push_back(
        {state_->timestamps.labels[i], passed * core.info.limits.timestamp_period_ns * 1e-3});
  }
  return result;
}

namespace {

using Access = vk::AccessFlagBits;
using Stage = vk::PipelineStageFlagBits;

constexpr vk::AccessFlags kWrites = Access::eShaderWrite | Access::eTransferWrite;
constexpr vk::AccessFlags kUses =
    Access::eShaderRead | Access::eShaderWrite | Access::eTransferRead | Access::eTransferWrite;
constexpr vk::PipelineStageFlags kUsers = Stage::eComputeShader | Stage::eTransfer;
constexpr vk::PipelineStageFlags kStages = kUsers | Stage::eDrawIndirect;

}  // namespace

void record_barrier(const vk::raii::CommandBuffer& commands) {
  commands.pipelineBarrier(kStages, kUsers, {}, vk::MemoryBarrier(kWrites, kUses), {}, {});
}

void record_indirect_barrier(const vk::raii::CommandBuffer& commands) {
  const vk::MemoryBarrier memory(kWrites, kUses | Access::eIndirectCommandRead);
  commands.pipelineBarrier(kStages, kStages, {}, memory, {}, {});
}

void record_host_barrier(const vk::raii::CommandBuffer& commands) {
  commands.pipelineBarrier(kStages, Stage::eHost, {}, vk::MemoryBarrier(kWrites, Access::eHostRead),
                           {}, {});
}

std::pair<vk::raii::CommandPool, vk::raii::CommandBuffer> make_commands(Core& core) {
  const vk::CommandPoolCreateInfo pool_info({}, core.family);
  auto pool = core.driver.call("vkCreateCommandPool",
                               [&] { return core.device.createCommandPool(pool_info); });
  const vk::CommandBufferAllocateInfo info(*pool, vk::CommandBufferLevel::ePrimary, 1);
  auto commands = core.driver.call("vkAllocateCommandBuffers",
                                   [&] { return vk::raii::CommandBuffers(core.device, info); });
  return {std::move(pool), std::move(commands.front())};
}

namespace {

std::shared_ptr<ListState> begin_list(Core& core, std::string_view name) {
  auto list = make_driver_object<ListState>();
  list->core = &core;
  list->name = name;
  ListParts parts = core.spare_lists.take();
  list->pool = std::move(parts.pool);
  list->commands = std::move(parts.commands);
  list->timestamps.spare_pool = std::move(parts.timestamps);
  if (parts.descriptors) {
    list->descriptors.pools.push_back(*std::move(parts.descriptors));
    list->descriptors.sets_left = kSetsPerPool;
    list->descriptors.descriptors_left = kDescriptorsPerPool;
  }
  core.set_name(list->pool, list->name);
  core.set_name(list->commands, list->name);
  // A list may be submitted again while it still runs.
  core.driver.call("vkBeginCommandBuffer", [&] {
    list->commands.begin({vk::CommandBufferUsageFlagBits::eSimultaneousUse});
  });
  record_indirect_barrier(list->commands);
  return list;
}

}  // namespace

std::shared_ptr<ListState> make_list(Core& core, std::string_view name) {
  std::shared_ptr<ListState> list = begin_list(core, name);
  Profile* const profile = Profile::here();
  if (profile == nullptr) return list;
  if (!core.info.features.timestamps) {
    profile->set_note("device \"" + core.info.name +
                      "\" has no timestamps: the time of its kernels is that of waiting for it");
    return list;
  }
  list->profile = std::make_unique<ProfileStamps>();
  list->profile->stamp(*list);
  return list;
}

void ProfileStamps::stamp(ListState& list) {
  Core& core = *list.core;
  if (count % kPerPool == 0) {
    const vk::QueryPoolCreateInfo info({}, vk::QueryType::eTimestamp, kPerPool);
    pools.push_back(
        core.driver.call("vkCreateQueryPool", [&] { return core.device.createQueryPool(info); }));
    core.set_name(pools.back(), list.name);
    list.commands.resetQueryPool(*pools.back(), 0, kPerPool);
  }
  list.commands.writeTimestamp(vk::PipelineStageFlagBits::eBottomOfPipe, *pools.back(),
                               count++ % kPerPool);
}

void ProfileStamps::after(ListState& list, Work work, std::uint64_t bytes) {
  const auto found = std::ranges::find(works, work);
  const auto index = static_cast<std::uint32_t>(found - works.begin());
  if (found == works.end()) works.push_back(std::move(work));
  commands.push_back({.work = index, .bytes = bytes});
  stamp(list);
}

StampsRead record_stamps_read(Core& core, const std::shared_ptr<ListState>& list) {
  constexpr std::uint64_t kBytes = sizeof(std::uint64_t);
  const ProfileStamps& stamps = *list->profile;
  StampsRead read{.of = list,
                  .copies = begin_list(core, "topograd_timestamps"),
                  .ticks = core.memory.take(stamps.count * kBytes, MemoryKind::Readback,
                                            "topograd_timestamps")};
  ListState& copies = *read.copies;
  copies.buffers.push_back(read.ticks);
  for (std::uint32_t first = 0; first < stamps.count; first += ProfileStamps::kPerPool) {
    copies.commands.copyQueryPoolResults(
        *stamps.pools[first / ProfileStamps::kPerPool], 0,
        std::min(ProfileStamps::kPerPool, stamps.count - first), *read.ticks->slot.buffer,
        first * kBytes, kBytes, vk::QueryResultFlagBits::e64 | vk::QueryResultFlagBits::eWait);
  }
  end_list(copies);
  return read;
}

ListState::~ListState() {
  if (core == nullptr || !*pool) return;
  ListParts parts{std::move(pool), std::move(commands), std::nullopt,
                  std::move(timestamps.spare_pool)};
  if (!descriptors.pools.empty()) parts.descriptors = std::move(descriptors.pools[0]);
  if (!timestamps.pools.empty()) parts.timestamps = std::move(timestamps.pools[0]);
  core->spare_lists.give(std::move(parts));
}

void end_list(ListState& list) {
  if (list.ended) return;
  if (list.open_labels != 0) {
    throw Error(ErrorCode::InvalidArgument, "command list \"" + list.name +
                                                "\": " + std::to_string(list.open_labels) +
                                                " begin_label without end_label");
  }
  record_host_barrier(list.commands);
  list.core->driver.call("vkEndCommandBuffer", [&] { list.commands.end(); });
  list.ended = true;
}

}  // namespace topograd::runtime::vulkan
