// Makes pipelines from kernel sources.
#include "kernels.hpp"

#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/foreign_call.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"
#include "../../runtime/device/opened/core.hpp"
#include "../../runtime/kernel_listing.hpp"

#include <string>
#include <vector>

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

void require(bool there, const ComputeKernel& text, const char* what,
             const vk::DeviceInfo& device) {
  if (there) return;
  throw Error(ErrorCode::Unsupported, "kernel \"" + text.name + "\": expected a device with " +
                                          what + ", got \"" + device.name + "\" without it");
}

void check_features(const ComputeKernel& text, const codegen::ModuleLayout& layout,
                    const vk::DeviceInfo& info) {
  const vk::Features& f = info.features;
  require(f.has_float64() || !layout.uses_float64(), text, "float64", info);
  require(f.int64 || !layout.uses_int64(), text, "int64", info);
  require(f.int64_atomics || !layout.uses_int64_atomics(), text, "64-bit integer atomics", info);
  require(f.atomic_float32_add || !layout.uses_float32_atomic_add(), text, "float32 atomics", info);
  require(f.atomic_float64_add || !layout.uses_float64_atomic_add(), text, "float64 atomics", info);
  require(f.subgroup_basic || !layout.uses_subgroups(), text, "subgroups", info);
}

void check_layout(const ComputeKernel& text, const codegen::ModuleLayout& layout) {
  const std::size_t push = 4 * (text.arguments + 1 + text.words);
  if (layout.bindings.size() == text.arguments && layout.push_constant_size == push &&
      layout.workgroup_size == text.local_size)
    return;
  throw Error(ErrorCode::LayoutMismatch,
              text.name + ": expected " + std::to_string(text.arguments) + " storage buffers, " +
                  std::to_string(push) + " bytes of push constants and workgroups of " +
                  std::to_string(text.local_size[0]) + ", got " +
                  std::to_string(layout.bindings.size()) + ", " +
                  std::to_string(layout.push_constant_size) + " and " +
                  std::to_string(layout.workgroup_size[0]));
}

}  // namespace

vk::Kernel VulkanKernels::compile(const ComputeKernel& text) {
  runtime::DiskCache& disk = device_->disk_cache();
  ir::Hash128 key = text.hash;
  key.add(1);  // the compilation differs from that of solver kernels
  auto [spirv, from_disk] = vk::load_or_compile(disk, key, [&] {
    return codegen::add_float_controls(
        codegen::compile({.name = text.name, .glsl = text.glsl, .includes = {}}),
        vk::float_controls(device_->features()));
  });
  const bool matrices = codegen::has_cooperative_matrices(spirv);
  require(device_->features().cooperative_matrix || !matrices, text, "cooperative matrices",
          device_->info());
  const codegen::ModuleLayout layout =
      matrices ? codegen::reflect_words(spirv) : codegen::reflect(spirv);
  check_features(text, layout, device_->info());
  check_layout(text, layout);
  if (from_disk) ++from_disk_;
  if (matrices && vk::has_khr_matrices(*device_)) spirv = codegen::to_khr_matrices(spirv);
  return device_->kernel({.spirv = spirv,
                          .name = text.name,
                          .storage_buffers = text.arguments,
                          .push_constant_bytes = 4 * (text.arguments + 1 + text.words),
                          .constants = {},
                          .local_size = text.local_size});
}

std::pair<vk::Kernel, bool> VulkanKernels::make(const ComputeKernel& text) {
  runtime::note_kernel(text.name, text.glsl);
  const ForeignCall permission("kernel");
  // One at a time: two threads usually request the same kernel.
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(text.hash);
  if (found != kernels_.end()) return {found->second, false};
  vk::Kernel kernel = compile(text);
  ++made_;
  kernels_.emplace(text.hash, kernel);
  return {kernel, true};
}

}  // namespace topograd::ops
