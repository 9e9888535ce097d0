// Runs generated kernels on a device with buffers bound by role.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../codegen/kernels/projection.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "../support/validation.hpp"

namespace topograd::test {

/// Buffers by role and kernels that run on them, one after the other.
class KernelRunner {
 public:
  explicit KernelRunner(std::shared_ptr<runtime::vulkan::Device> device);

  void set(codegen::BufferRole role, codegen::Precision precision, std::span<const double> values);
  void set(codegen::BufferRole role, std::span<const std::uint32_t> values);
  /// From now on binds the buffer of `role` also as `alias`.
  void set_alias(codegen::BufferRole alias, codegen::BufferRole role);
  /// A word of flexible columns.
  void set(const codegen::ColumnForm& form, std::uint32_t word) { forms_[form] = word; }
  void swap(codegen::BufferRole a, codegen::BufferRole b);
  std::vector<double> numbers(codegen::BufferRole role, codegen::Precision precision);
  std::vector<std::uint32_t> words(codegen::BufferRole role);

  void run(const codegen::KernelSource& source, const codegen::PushConstants& push,
           std::uint32_t groups);
  void run_vector(const codegen::VectorKernelRequest& request, const codegen::VectorConstants& push,
                  std::uint32_t groups);
  void run_projection(const codegen::KernelSource& source, const codegen::ProjectionConstants& push,
                      std::uint32_t groups);

 private:
  void dispatch(const codegen::KernelSource& source, std::span<const std::byte> push,
                std::uint32_t groups);

  std::shared_ptr<runtime::vulkan::Device> device_;
  std::shared_ptr<runtime::vulkan::KernelCache> cache_;
  runtime::vulkan::CompileAccount compiled_;
  std::map<codegen::ColumnForm, std::uint32_t> forms_;
  std::map<codegen::BufferRole, std::shared_ptr<runtime::vulkan::Buffer>> buffers_;
};

/// A device for kernels of both precisions, or of f32 alone without float64.
class KernelDeviceTest : public VulkanTest {
 protected:
  /// True if signed zeros, infinities, NaN and denormals are kept in that precision.
  bool keeps_specials(codegen::Precision precision) const;
  codegen::KernelRequest with_controls(codegen::KernelRequest request) const;
  /// True if + - * / and square root round like the processor's.
  bool rounds_correctly(codegen::Precision precision) const;
};

/// Workgroups for `count` invocations.
std::uint32_t groups_of(std::uint32_t count, std::uint32_t workgroup_size);

/// Numbers rounded to the precision.
std::vector<double> rounded(std::vector<double> values, codegen::Precision precision);

/// Distance in units in the last place of the precision; 0 for two NaNs, huge for one. Zeros of
/// different sign are 1 apart.
double ulps(double a, double b, codegen::Precision precision);

}  // namespace topograd::test
