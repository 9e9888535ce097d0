// A compute pipeline made from SPIR-V.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../kernel_figures.hpp"

namespace topograd::runtime::vulkan {

class Core;
struct KernelState;

struct SpecializationConstant {
  std::uint32_t id = 0;
  std::uint32_t value = 0;  ///< bits of a 32-bit constant
};

/// Content of a kernel. Entry point "main"; storage buffers are set 0, bindings 0 ..
/// storage_buffers - 1; push constants start at byte 0.
struct KernelDesc {
  std::span<const std::uint32_t> spirv;  ///< words; copied
  std::string name;                      ///< for profilers and messages
  std::uint32_t storage_buffers = 0;
  std::uint32_t push_constant_bytes = 0;  ///< a multiple of 4
  std::vector<SpecializationConstant> constants;
  /// Workgroup size that the module declares, after specialisation; checked against the limits.
  std::array<std::uint32_t, 3> local_size = {1, 1, 1};
};

/// Handle to a pipeline. Cheap to copy; the device keeps one pipeline per content (everything in
/// KernelDesc except the name) for its lifetime. Made by Device::kernel.
class Kernel {
 public:
  Kernel() = default;
  Kernel(std::shared_ptr<Core> core, const KernelState* state);

  explicit operator bool() const { return core_ != nullptr; }
  const std::string& name() const;
  std::uint32_t storage_buffers() const;
  std::uint32_t push_constant_bytes() const;
  std::array<std::uint32_t, 3> local_size() const;
  /// Wall time of the driver to make the pipeline, in milliseconds. The software device compiles at
  /// the first dispatch instead.
  double creation_ms() const;

  /// The driver's figures of the compiled code; empty without
  /// Features::pipeline_executable_properties. Cost: some driver calls.
  KernelFigures figures() const;

  const KernelState& state() const { return *state_; }

 private:
  std::shared_ptr<Core> core_;
  const KernelState* state_ = nullptr;  // owned by core_, for its lifetime
};

}  // namespace topograd::runtime::vulkan
