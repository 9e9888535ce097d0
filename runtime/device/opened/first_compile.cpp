// A pipeline and a submission outside all counters.
#include "opened.hpp"

#include "../../../ir/machine/foreign_call.hpp"
#include "../../../ir/machine/platform.hpp"
#include "core.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestWait{60};
constexpr std::chrono::microseconds kPause{100};

// layout(local_size_x = 8) in;
// layout(constant_id = 0) const uint never = 1;
// void main() { if (gl_WorkGroupID.x == never) barrier(); }
constexpr std::array<std::uint32_t, 105> kModule = {
    0x07230203, 0x00010500, 0x00070000, 0x00000012, 0x00000000, 0x00020011, 0x00000001, 0x0003000e,
    0x00000000, 0x00000001, 0x0006000f, 0x00000005, 0x00000001, 0x6e69616d, 0x00000000, 0x00000002,
    0x00060010, 0x00000001, 0x00000011, 0x00000008, 0x00000001, 0x00000001, 0x00040047, 0x00000002,
    0x0000000b, 0x0000001a, 0x00040047, 0x00000003, 0x00000001, 0x00000000, 0x00020013, 0x00000004,
    0x00030021, 0x00000005, 0x00000004, 0x00040015, 0x00000006, 0x00000020, 0x00000000, 0x00040032,
    0x00000006, 0x00000003, 0x00000001, 0x00040017, 0x00000007, 0x00000006, 0x00000003, 0x00040020,
    0x00000008, 0x00000001, 0x00000007, 0x0004003b, 0x00000008, 0x00000002, 0x00000001, 0x00020014,
    0x00000009, 0x0004002b, 0x00000006, 0x0000000a, 0x00000002, 0x0004002b, 0x00000006, 0x0000000b,
    0x00000108, 0x00050036, 0x00000004, 0x00000001, 0x00000000, 0x00000005, 0x000200f8, 0x0000000c,
    0x0004003d, 0x00000007, 0x0000000d, 0x00000002, 0x00050051, 0x00000006, 0x0000000e, 0x0000000d,
    0x00000000, 0x000500aa, 0x00000009, 0x0000000f, 0x0000000e, 0x00000003, 0x000300f7, 0x00000010,
    0x00000000, 0x000400fa, 0x0000000f, 0x00000011, 0x00000010, 0x000200f8, 0x00000011, 0x000400e0,
    0x0000000a, 0x0000000a, 0x0000000b, 0x000200f9, 0x00000010, 0x000200f8, 0x00000010, 0x000100fd,
    0x00010038};

/// Differs between processes, so that no disk cache has the kernel; never 0, the running workgroup.
std::uint32_t fresh_number() {
  const auto ticks =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return 1 | static_cast<std::uint32_t>(ticks ^ (platform::process_id() << 20));
}

vk::raii::Pipeline make_pipeline(const vk::raii::Device& device, vk::PipelineLayout layout) {
  const vk::raii::ShaderModule module(
      device, vk::ShaderModuleCreateInfo({}, sizeof kModule, kModule.data()));
  const std::uint32_t never = fresh_number();
  const vk::SpecializationMapEntry entry(0, 0, sizeof never);
  const vk::SpecializationInfo specialization(1, &entry, sizeof never, &never);
  const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *module,
                                                "main", &specialization);
  return device.createComputePipeline(nullptr, vk::ComputePipelineCreateInfo({}, stage, layout));
}

/// Objects that the device uses while it compiles.
struct Submitted {
  vk::raii::PipelineLayout layout;
  vk::raii::Pipeline pipeline;
  vk::raii::CommandPool pool;
  vk::raii::CommandBuffer commands;
  vk::raii::Fence fence;

  explicit Submitted(const Core& core);
  bool done() const { return fence.getStatus() == vk::Result::eSuccess; }
};

Submitted::Submitted(const Core& core)
    : layout(core.device.createPipelineLayout({})),
      pipeline(make_pipeline(core.device, *layout)),
      pool(core.device.createCommandPool({{}, core.family})),
      commands(
          std::move(core.device.allocateCommandBuffers({*pool, vk::CommandBufferLevel::ePrimary, 1})
                        .front())),
      fence(core.device.createFence({})) {
  commands.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline);
  commands.dispatch(1, 1, 1);
  commands.end();
  const vk::SubmitInfo info({}, {}, *commands);
  core.device.getQueue(core.family, 0).submit(info, *fence);
}

}  // namespace

void compile_first(const Core& core) {
  const ForeignCall permission("compile_first");
  try {
    auto submitted = std::make_unique<Submitted>(core);
    const auto until = Clock::now() + kLongestWait;
    while (!submitted->done()) {
      if (Clock::now() > until) {
        (void)submitted.release();  // the device still uses it
        return;
      }
      std::this_thread::sleep_for(kPause);
    }
  } catch (const vk::SystemError&) {
    // Ignored: see the declaration.
  }
}

}  // namespace topograd::runtime::vulkan
