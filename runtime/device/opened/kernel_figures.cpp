// The driver's figures of compiled kernels.
#include "core.hpp"

namespace topograd::runtime::vulkan {
namespace {

double value(const vk::PipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case vk::PipelineExecutableStatisticFormatKHR::eBool32: return statistic.value.b32 ? 1 : 0;
    case vk::PipelineExecutableStatisticFormatKHR::eInt64:
      return static_cast<double>(statistic.value.i64);
    case vk::PipelineExecutableStatisticFormatKHR::eUint64:
      return static_cast<double>(statistic.value.u64);
    case vk::PipelineExecutableStatisticFormatKHR::eFloat64: return statistic.value.f64;
  }
  return 0;
}

}  // namespace

KernelFigures Kernel::figures() const {
  KernelFigures made{.name = name(), .workgroup_size = local_size()[0], .figures = {}};
  if (!core_->info.features.pipeline_executable_properties) return made;
  const vk::Pipeline pipeline = *state_->pipeline;
  const auto executables = core_->driver.call("vkGetPipelineExecutablePropertiesKHR", [&] {
    return core_->device.getPipelineExecutablePropertiesKHR(vk::PipelineInfoKHR(pipeline));
  });
  for (std::uint32_t k = 0; k < executables.size(); ++k) {
    const auto statistics = core_->driver.call("vkGetPipelineExecutableStatisticsKHR", [&] {
      return core_->device.getPipelineExecutableStatisticsKHR(
          vk::PipelineExecutableInfoKHR(pipeline, k));
    });
    for (const vk::PipelineExecutableStatisticKHR& one : statistics)
      made.figures.push_back({one.name.data(), value(one)});
  }
  return made;
}

}  // namespace topograd::runtime::vulkan
