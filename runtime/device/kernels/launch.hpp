// What kernels are made with and launched with on a device: cache, precision, sizes of workgroups.
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

namespace topograd::runtime::vulkan {

using codegen::Precision;

/// A device as kernels see it. One thread at a time.
struct LaunchContext {
  std::shared_ptr<Device> device;  ///< a handle of its own
  std::shared_ptr<KernelCache> cache;
  std::shared_ptr<CompileAccount> compiled;
  Precision precision = Precision::f64;
  std::uint64_t max_invocations_per_dispatch = 0;  ///< 0 = the device's limit
  std::uint32_t workgroup_size = 128;
  /// Set while a list is recorded for the sake of its kernels: these are begun, and nothing is
  /// dispatched, so that nobody waits for one kernel before the next is begun.
  bool collecting = false;
  std::vector<std::shared_ptr<KernelJob>> begun;  ///< while collecting: what the list uses
  void waits_for(const std::shared_ptr<KernelJob>& job);
  std::vector<std::shared_ptr<KernelJob>> loaded;  ///< the first kernels, for reports

  /// Workgroups of a grid-stride loop: enough to keep a large device busy, few on the software
  /// device, where a workgroup's reduction costs as much as some thousand elements.
  std::uint32_t most_workgroups() const { return device->info().software() ? 16 : 1056; }
  /// Workgroups of a grid-stride loop over `count` elements.
  std::uint32_t grid(std::uint64_t count) const;
  /// Those of kernels that wait for memory most of the time and begin with sums: as many as a large
  /// device holds at once.
  std::uint32_t product_grid(std::uint64_t count) const;
  /// Numbers of the scalar buffer and of partial sums: the widest the device has.
  Precision scalar_precision() const {
    return wide() || device->features().float64 ? Precision::f64 : Precision::f32;
  }
  bool wide() const { return precision == Precision::f64; }
  std::uint32_t element_bytes() const { return wide() ? 8 : 4; }
  /// Invocations of one dispatch at most.
  std::uint64_t max_invocations() const;
  std::uint64_t max_range() const { return device->limits().max_storage_buffer_range; }
};

/// A context of the device, for kernels in this precision.
///
/// Throws Error{Unsupported} if the device lacks float64 for f64.
LaunchContext make_launch_context(const std::shared_ptr<Device>& opened, Precision precision);

/// `wanted`, halved until the device's workgroups may have so many invocations.
std::uint32_t fitting_workgroup(const Limits& limits, std::uint32_t wanted);
/// Workgroups of `size` invocations for `count` of them, 1 to `most`.
std::uint32_t groups_for(const LaunchContext& context, std::uint64_t count, std::uint32_t size,
                         std::uint64_t most);

/// A kernel that is there or on its way. Copies share it.
struct LoadedKernel {
  std::shared_ptr<KernelJob> job;
  std::uint32_t workgroup_size = 0;
  bool reduces = false;          ///< writes one partial sum a workgroup
  bool values = false;           ///< the same, of the cost, beside its results
  bool workgroup_items = false;  ///< takes a workgroup for each work item

  explicit operator bool() const { return job != nullptr; }
  /// Waits for it. Throws what making it threw.
  const MadeKernel& made() const { return job->get(); }
};

/// All kinds of request ask for the same float controls.
template <class Request>
void set_float_controls(const LaunchContext& context, Request& request) {
  const Features& features = context.device->features();
  request.float_controls_f32 =
      features.signed_zero_inf_nan_preserve_f32 && features.denorm_preserve_f32;
  request.float_controls_f64 =
      features.signed_zero_inf_nan_preserve_f64 && features.denorm_preserve_f64;
}

/// Begins to generate, compile and load the kernel whose source `generate` gives, with workgroups
/// of that size; `generate` owns all that it reads.
LoadedKernel begin_kernel(LaunchContext& context, std::function<codegen::KernelSource()> generate,
                          std::uint32_t workgroup_size);
/// Fills in what the device and the context decide, and begins to generate, compile and load. Where
/// workgroups share work items the size is the caller's.
LoadedKernel load_kernel(LaunchContext& context, codegen::KernelRequest request);
/// Of the source that load_kernel() would make.
ir::Hash128 source_hash(const LaunchContext& context, codegen::KernelRequest request);

/// A device buffer with these contents; one word of zeros for an empty span.
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

/// What kernels are told of flexible columns, by form.
struct FormWords {
  std::vector<std::uint32_t> index, step, data;
};

/// Buffers by role, and words by form; a kernel's bindings are looked up here.
class BindingTable {
 public:
  void set(codegen::BufferRole role, const Buffer& buffer, std::uint64_t offset = 0,
           std::uint64_t size = 0);
  /// Bindings of a source in order. Throws Error{Internal} if a role is missing.
  std::vector<Binding> bind(const codegen::KernelSource& source) const;

  /// `forms` stays where it is while the table is used.
  void set(const FormWords& forms) { forms_ = &forms; }
  std::uint32_t word(const codegen::ColumnForm& form) const;

 private:
  Binding slots_[codegen::kBufferRoles] = {};
  const FormWords* forms_ = nullptr;
};

/// Records one dispatch with the push constants that the kernel declares, which are the first of
/// its kind; waits for the kernel. Nothing happens while the context collects kernels.
void dispatch(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, std::span<const std::byte> push, std::uint32_t groups);
template <class Constants>
void dispatch(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, const Constants& constants, std::uint32_t groups) {
  dispatch(context, list, loaded, table, push_bytes(constants), groups);
}

/// Records as many dispatches as `count` invocations (or work items of workgroups) need;
/// `push.first` and `push.count` are set by it. Returns `push.out_first`, for reductions moved past
/// the partial sums that are written; for kernels that give values `push.costs_first()`, likewise.
std::uint32_t dispatch_all(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
                           const BindingTable& table, codegen::PushConstants push,
                           std::uint64_t count);

/// Partial sums of the cost that such dispatches of a kernel with values write, at most.
std::uint64_t most_value_sums(const LaunchContext& context, std::uint64_t count,
                              std::uint32_t workgroup_size, bool workgroup_items);

/// The same for the invocations from `first` on, of kernels that do not reduce. Returns the number
/// of dispatches.
std::uint32_t dispatch_range(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
                             const BindingTable& table, codegen::PushConstants push,
                             std::uint64_t first, std::uint64_t count);

}  // namespace topograd::runtime::vulkan
