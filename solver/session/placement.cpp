// Which backend a solve or an Evaluator runs on.
#include "placement.hpp"

#include "../../ir/machine/platform.hpp"

namespace topograd {
namespace {

std::string lacks_float64(const DeviceFacts& device, Precision precision) {
  return "device \"" + device.name + "\" has no float64, which precision " +
         std::string(name(precision)) + " needs";
}

Placement forced(const SolverOptions& options, const DeviceFacts& device) {
  if (!device.usable) throw Error(device.code, "backend vulkan: " + device.problem);
  if (options.precision != Precision::f32 && !device.float64) {
    throw Error(ErrorCode::Unsupported,
                "backend vulkan: " + lacks_float64(device, options.precision) +
                    "; use precision f32 or backend automatic");
  }
  return {Backend::vulkan, "asked for"};
}

}  // namespace

bool names_device(const SolverOptions& options) {
  return !options.device.empty() || platform::environment("TOPOGRAD_DEVICE").has_value();
}

Placement place(const SolverOptions& options, std::uint64_t instances, bool named,
                const DeviceProbe& probe) {
  if (options.backend == Backend::cpu) return {Backend::cpu, "asked for"};
  if (options.backend == Backend::vulkan) return forced(options, probe(options));

  const std::uint64_t threshold = options.fallback_threshold.value_or(0);
  const std::string size = std::to_string(instances) + " instances";
  if (instances < threshold) {
    return {Backend::cpu,
            "cpu: " + size + " are below the threshold of " + std::to_string(threshold)};
  }
  const DeviceFacts device = probe(options);
  if (!device.usable) return {Backend::cpu, "cpu: " + device.problem};
  if (device.software && !named) {
    return {Backend::cpu,
            "cpu: the only Vulkan device is software (" + device.name + ") and was not named"};
  }
  if (options.precision != Precision::f32 && !device.float64) {
    return {Backend::cpu, "cpu: " + lacks_float64(device, options.precision)};
  }
  return {Backend::vulkan,
          "vulkan: " + size + " reach the threshold of " + std::to_string(threshold)};
}

}  // namespace topograd
