// Features and limits of a Vulkan device, and masks that hide some of them for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::vulkan {

/// Optional features of a device after masking: false features are not enabled.
struct Features {
  bool float64 = false;              ///< shaderFloat64
  bool emulated_float64 = false;     ///< f64 by 32-bit integers, in the place of float64
  bool int64 = false;                ///< shaderInt64
  bool int64_atomics = false;        ///< shaderInt64 and shaderBufferInt64Atomics
  bool atomic_float32_add = false;   ///< shaderBufferFloat32AtomicAdd
  bool atomic_float64_add = false;   ///< shaderBufferFloat64AtomicAdd
  bool subgroup_basic = false;       ///< subgroupElect, subgroupBarrier in compute
  bool subgroup_arithmetic = false;  ///< subgroupAdd, subgroupMax, ... in compute
  bool large_workgroups = false;     ///< more than 256 invocations in a workgroup
  bool shared_32k = false;           ///< at least 32 KiB of shared memory
  bool large_buffer_range = false;   ///< storage buffer ranges over 128 MiB
  bool mapped_memory = false;        ///< device-local memory that the host can map
  bool timestamps = false;           ///< device timestamps on the compute queue
  bool signed_zero_inf_nan_preserve_f32 = false;
  bool signed_zero_inf_nan_preserve_f64 = false;
  bool denorm_preserve_f32 = false;
  bool denorm_preserve_f64 = false;
  bool pipeline_executable_properties = false;  ///< VK_KHR_pipeline_executable_properties
  bool memory_budget = false;                   ///< VK_EXT_memory_budget
  bool cooperative_matrix = false;              ///< VK_NV_cooperative_matrix

  /// True if kernels can use f64, native or emulated.
  bool has_float64() const { return float64 || emulated_float64; }
};

/// Limits of a device, after masking and LimitOverrides.
struct Limits {
  std::uint64_t max_storage_buffer_range = 0;         ///< bytes of one binding
  std::uint64_t max_allocation_size = 0;              ///< bytes of one memory allocation
  std::uint64_t storage_buffer_offset_alignment = 1;  ///< bytes; Binding::offset is a multiple
  std::uint32_t max_workgroup_size_x = 0;             ///< invocations
  std::uint32_t max_workgroup_invocations = 0;        ///< invocations
  std::uint32_t max_workgroups_x = 0;                 ///< workgroups of one dispatch along x
  std::uint32_t max_workgroups_y = 0;
  std::uint32_t max_workgroups_z = 0;
  std::uint32_t shared_memory_bytes = 0;            ///< bytes of one workgroup
  std::uint32_t subgroup_size = 1;                  ///< invocations; 1 without subgroups
  std::uint32_t max_storage_buffers_per_stage = 0;  ///< bindings of one kernel
  std::uint32_t max_push_constant_bytes = 0;        ///< bytes, at least 128
  /// Largest number of loop iterations of one invocation, summed over its loops. llvmpipe silently
  /// leaves loops after 65,535; other devices have no such limit.
  std::uint32_t max_loop_iterations = ~std::uint32_t{0};
  /// Largest number of instructions of a kernel, with all calls inlined. SwiftShader's compiler
  /// ended the process at 189,000 of one kernel, and took 261,000 of another; other devices have no
  /// such limit.
  std::uint64_t max_inlined_instructions = ~std::uint64_t{0};
  double timestamp_period_ns = 0;  ///< nanoseconds per timestamp tick
};

/// Upper bounds for a device's limits, so that tests of chunking can be small; 0 keeps a limit.
struct LimitOverrides {
  std::uint64_t max_storage_buffer_range = 0;       ///< bytes
  std::uint64_t max_allocation_size = 0;            ///< bytes
  std::uint32_t max_workgroup_size_x = 0;           ///< invocations
  std::uint32_t max_workgroup_invocations = 0;      ///< invocations
  std::uint32_t max_workgroups_x = 0;               ///< workgroups
  std::uint32_t shared_memory_bytes = 0;            ///< bytes
  std::uint32_t max_storage_buffers_per_stage = 0;  ///< bindings

  bool operator==(const LimitOverrides&) const = default;
};

/// A set of hidden features, one bit each in the order of mask_names().
using Mask = std::uint32_t;

/// Names of masks: float64, float32_atomics, float64_atomics, int64_atomics, subgroups,
/// large_workgroups, shared_32k, large_buffers, timestamps, mapped_memory.
const std::vector<std::string>& mask_names();

/// Named masks for kinds of devices.
struct MaskPreset {
  const char* name;
  const char* features;  ///< mask names; empty = all of them
};
/// intel_no_f64 (an Intel GPU without float64), amd_no_subgroups (an AMD GPU whose subgroups have
/// another size, so that none are used), minimal (only what Vulkan 1.2 guarantees).
const std::vector<MaskPreset>& mask_presets();

/// Reads a comma-separated list of masks and presets; empty parts and blanks are skipped.
///
/// Throws Error{InvalidArgument} for an unknown name, listing the known ones.
Mask parse_mask(std::string_view text);

/// The mask as parse_mask reads it.
std::string mask_text(Mask mask);

/// Hides the masked features and lowers the limits that belong to them (256 invocations, 16 KiB of
/// shared memory, ranges of 128 MiB, subgroups of one).
void apply_mask(Mask mask, Features& features, Limits& limits);

/// Lowers limits to the given bounds; a bound above the device's own has no effect. Features that
/// follow from limits (large_workgroups, shared_32k, large_buffer_range) are lowered with them.
void apply_overrides(const LimitOverrides& overrides, Features& features, Limits& limits);

}  // namespace topograd::runtime::vulkan
