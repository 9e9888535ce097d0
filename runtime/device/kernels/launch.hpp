// Context for making and launching kernels on a device: cache, precision, workgroup sizes.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../device.hpp"
#include "kernel_cache.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace topograd::runtime {
class RowRunner;
}

namespace topograd::runtime::vulkan {

using codegen::Precision;

/// A device with the settings of its kernels. One thread at a time.
struct LaunchContext {
  std::shared_ptr<Device> device;  ///< a separate handle
  std::shared_ptr<KernelCache> cache;
  std::shared_ptr<CompileAccount> compiled;
  Precision precision = Precision::f64;
  std::uint64_t max_invocations_per_dispatch = 0;  ///< 0 = the device's limit
  std::uint32_t workgroup_size = 128;
  std::vector<std::shared_ptr<KernelJob>> loaded;  ///< the first kernels, for reports

  /// Largest number of workgroups of a grid-stride loop: enough for a large device, few on the
  /// software device, where a workgroup's reduction costs as much as some thousand elements.
  std::uint32_t most_workgroups() const { return device->info().software() ? 16 : 1056; }
  /// Number of workgroups of a grid-stride loop over `count` elements.
  std::uint32_t grid(std::uint64_t count) const;
  /// Number of workgroups of kernels that mostly wait for memory and start with sums: as many as a
  /// large device runs at once.
  std::uint32_t product_grid(std::uint64_t count) const;
  bool wide_scalars = false;  ///< emulated f64 for them in an f32 context, too
  /// Precision of the scalar buffer and of partial sums: the widest that the device has itself.
  Precision scalar_precision() const {
    return wide() || wide_scalars || device->features().float64 ? Precision::f64 : Precision::f32;
  }
  bool wide() const { return precision == Precision::f64; }
  std::uint32_t element_bytes() const { return wide() ? 8 : 4; }
  /// Largest number of invocations of one dispatch.
  std::uint64_t max_invocations() const;
  std::uint64_t max_range() const { return device->limits().max_storage_buffer_range; }
};

/// A context of the device, for kernels in this precision.
///
/// Throws Error{Unsupported} if the device lacks float64 for f64.
LaunchContext make_launch_context(const std::shared_ptr<Device>& opened, Precision precision);

/// `wanted`, halved until it is within the device's limits.
std::uint32_t fitting_workgroup(const Limits& limits, std::uint32_t wanted);
/// Number of workgroups of `size` invocations for `count` of them, 1 to `most`.
std::uint32_t groups_for(const LaunchContext& context, std::uint64_t count, std::uint32_t size,
                         std::uint64_t most);

/// A kernel that is ready or being made. Copies share it.
struct LoadedKernel {
  std::shared_ptr<KernelJob> job;
  std::uint32_t workgroup_size = 0;
  bool reduces = false;          ///< writes one partial sum per workgroup
  bool values = false;           ///< writes partial sums of the cost in addition to its results
  bool workgroup_items = false;  ///< uses a workgroup for each work item

  explicit operator bool() const { return job != nullptr; }
  /// Waits for the kernel. Throws the error of a failed compilation.
  const MadeKernel& made() const { return job->get(); }
};

/// Kernels that a list would run, as recording to a list that declares finds them. They are made
/// from here on: those that are declared together compile at the same time.
class DeclaredKernels {
 public:
  void add(const LoadedKernel& kernel);
  const std::vector<std::shared_ptr<KernelJob>>& jobs() const { return jobs_; }

 private:
  std::vector<std::shared_ptr<KernelJob>> jobs_;
};

/// Sets the float controls, which are the same for all kinds of requests.
template <class Request>
void set_float_controls(const LaunchContext& context, Request& request) {
  const codegen::FloatControls controls = float_controls(context.device->features());
  request.float_controls_f32 = controls.f32.denorm_preserve;
  request.float_controls_f64 = controls.f64.denorm_preserve;
}

/// Starts to generate, compile and load the kernel for the source from `generate`, with workgroups
/// of that size; `generate` owns all that it reads.
LoadedKernel begin_kernel(LaunchContext& context, std::function<codegen::KernelSource()> generate,
                          std::uint32_t workgroup_size);
/// Completes the request from device and context, then starts to generate, compile and load it. If
/// workgroups share work items, the caller sets their size.
LoadedKernel load_kernel(LaunchContext& context, codegen::KernelRequest request);
/// Hash of the source that load_kernel() would generate.
ir::Hash128 source_hash(const LaunchContext& context, codegen::KernelRequest request);

/// Makes a device buffer with these contents; one word of zeros for an empty span.
Buffer make_buffer(LaunchContext& context, std::span<const std::uint32_t> values,
                   std::string_view name);
/// The same for numbers, in the precision of the context.
Buffer make_buffer(LaunchContext& context, std::span<const double> values, std::string_view name);
/// Writes numbers at element `first` in the precision of the context.
void write_numbers(LaunchContext& context, const Buffer& buffer, std::span<const double> values,
                   std::uint64_t first = 0);
void read_numbers(LaunchContext& context, const Buffer& buffer, std::span<double> values,
                  std::uint64_t first = 0);
/// An uninitialised buffer of `count` numbers in the precision of the context (at least one).
Buffer make_numbers(LaunchContext& context, std::uint64_t count, std::string_view name);

/// Push constants of flexible columns, by form.
struct FormWords {
  std::vector<std::uint32_t> index, step, data;
};

/// Buffers by role and words by form, from which a kernel's bindings are taken.
class BindingTable {
 public:
  void set(codegen::BufferRole role, const Buffer& buffer, std::uint64_t offset = 0,
           std::uint64_t size = 0);
  /// Returns the bindings of a source in order. Throws Error{Internal} if a role is missing.
  std::vector<Binding> bind(const codegen::KernelSource& source) const;

  /// How much a dispatch works on, for the bytes of a profile.
  struct Amount {
    double instances_per_item = 1;     ///< gather kernels: evaluated for a work item, on average
    std::uint64_t numbers = 0;         ///< vector kernels: of a vector; 0: unknown
    std::uint64_t packed_numbers = 0;  ///< of its diagonal blocks
  };
  void set(const Amount& amount) { amount_ = amount; }
  const Amount& amount() const { return amount_; }

  /// Sets the form words, which must outlive the use of the table.
  void set(const FormWords& forms) { forms_ = &forms; }
  std::uint32_t word(const codegen::ColumnForm& form) const;

 private:
  Binding slots_[kCountOf<codegen::BufferRole>] = {};
  const FormWords* forms_ = nullptr;
  Amount amount_;
};

/// Records one dispatch with as many push constants of its kind as the kernel declares; waits for
/// the kernel. A list that declares gets the kernel alone.
void dispatch(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, std::span<const std::byte> push, std::uint32_t groups);
template <class Constants>
void dispatch(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, const Constants& constants, std::uint32_t groups) {
  dispatch(context, list, loaded, table, push_bytes(constants), groups);
}

/// Records as many dispatches as `count` invocations (or work items of workgroups) need and sets
/// `push.first` and `push.count`. Returns `push.out_first`, which for reductions is moved past the
/// written partial sums; for kernels with values it returns `push.costs_first()`, moved the same
/// way.
std::uint32_t dispatch_all(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
                           const BindingTable& table, codegen::PushConstants push,
                           std::uint64_t count);

/// Largest number of partial sums of the cost that such dispatches of a kernel with values write.
std::uint64_t most_value_sums(const LaunchContext& context, std::uint64_t count,
                              std::uint32_t workgroup_size, bool workgroup_items);

/// The same for invocations from `first` on, without reductions. Returns the number of dispatches.
std::uint32_t dispatch_range(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
                             const BindingTable& table, codegen::PushConstants push,
                             std::uint64_t first, std::uint64_t count);

/// Runs generated kernels on rows of numbers (runtime/rows/rows.hpp) on a device.
std::unique_ptr<RowRunner> make_row_runner(LaunchContext context);
/// Makes a runner. Throws the errors of make_launch_context().
std::unique_ptr<RowRunner> make_row_runner(const std::shared_ptr<Device>& device,
                                           Precision precision);

}  // namespace topograd::runtime::vulkan
