// Construction and end of command buffers, and the barriers that they share.
#include "core.hpp"

#include "../../profile.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {
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
