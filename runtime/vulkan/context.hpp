// What the parts of a Vulkan engine share: device, kernels, choices and counters.
#pragma once

#include "../../codegen/projection.hpp"
#include "../../codegen/vector_kernels.hpp"
#include "../engine.hpp"
#include "kernel_cache.hpp"
#include "ladder.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace topograd::runtime::vulkan {

/// cg_init, cg_update, scaled_norms.
inline bool sums_for_products(codegen::VectorOp op) {
  using Op = codegen::VectorOp;
  return op == Op::cg_init || op == Op::cg_update || op == Op::scaled_norms;
}

/// Which kernels of terms serve.
enum class Code {
  general,  ///< right for any numbers
  make,     ///< while kernels are collected: those with shared numbers in their text, made where
            ///< they are not there
  serve     ///< those that were made; general ones in the place of others
};

struct Context {
  std::shared_ptr<Device> device;  ///< a handle of its own
  std::shared_ptr<KernelCache> cache;
  std::shared_ptr<CompileAccount> compiled;
  EngineOptions options;
  Rung rung;
  std::uint32_t workgroup_size = 128;
  /// Of cg_init and cg_update: every workgroup of the next product reads all of their partial sums,
  /// so these are few and large.
  std::uint32_t update_workgroup_size = 128;
  /// Of kernels whose workgroups share work items of so many entries, on average.
  std::uint32_t item_workgroup_size(std::uint64_t entries) const;
  /// Columns that need not be stored are not. A device that waits for memory gains by it, the
  /// software device loses: there a load at a place that is not known to move with the invocation
  /// costs more than the memory that it spares.
  bool flexible_columns = true;
  /// Numbers that all instances of a term share become code, of so many of them.
  std::uint64_t numbers_in_code_from = 0;
  Code code = Code::general;
  double plan_seconds = 0;
  /// Set while a list is recorded for the sake of its kernels: these are begun, and nothing is
  /// dispatched, so that nobody waits for one kernel before the next is begun.
  bool collecting = false;
  std::vector<std::shared_ptr<KernelJob>> begun;  ///< while collecting: what the list uses
  void waits_for(const std::shared_ptr<KernelJob>& job);
  std::vector<std::shared_ptr<KernelJob>> loaded;  ///< the first kernels, for the plan record

  /// Workgroups of a grid-stride loop: enough to keep a large device busy, few on the software
  /// device, where a workgroup's reduction costs as much as some thousand elements.
  std::uint32_t most_workgroups() const { return device->info().software() ? 16 : 1056; }
  /// Workgroups of a grid-stride loop over `count` elements.
  std::uint32_t grid(std::uint64_t count) const;
  /// Those of cg_init and cg_update over `count` blocks.
  std::uint32_t update_grid(std::uint64_t count) const;
  /// Those of a fused product over `count` owners, which waits for memory most of the time and
  /// begins with sums: as many as a large device holds at once.
  std::uint32_t product_grid(std::uint64_t count) const;
  /// Numbers of the scalar buffer and of partial sums: the widest the device has.
  Precision scalar_precision() const {
    return wide() || device->features().float64 ? Precision::f64 : Precision::f32;
  }
  bool wide() const { return options.precision == Precision::f64; }
  std::uint32_t element_bytes() const { return wide() ? 8 : 4; }
  /// Invocations of one dispatch at most.
  std::uint64_t max_invocations() const;
  std::uint64_t max_range() const { return device->limits().max_storage_buffer_range; }
};

/// Opens the device that the options name and chooses the rung and the size of workgroups there.
///
/// Throws Error{NoLoader, NoDriver, NoDevice} if there is none, Error{Unsupported} if the device
/// lacks float64 for f64.
Context open_context(const EngineOptions& options);

/// Test hook: engines that are opened from now on have flexible columns, also on a software device;
/// or have none.
void set_flexible_columns(std::optional<bool> wanted);

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

/// Test hook: numbers of engines that are opened from now on become code, or don't.
void set_numbers_in_code(std::optional<bool> wanted);

/// Fills in what the device and the engine decide, and begins to generate, compile and load. Where
/// workgroups share work items the size is the caller's.
LoadedKernel load_kernel(Context& context, codegen::KernelRequest request);
/// Of the source that load_kernel() would make.
ir::Hash128 source_hash(const Context& context, codegen::KernelRequest request);
LoadedKernel load_kernel(Context& context, codegen::VectorKernelRequest request);
LoadedKernel load_kernel(Context& context, codegen::ProjectionRequest request);

/// By data slot of a term: the number that all its instances share, if it may be code.
using SharedNumbers = std::vector<std::optional<double>>;

/// A kernel of a term, and the same one with the numbers in its text that its instances share.
struct TermKernel {
  LoadedKernel general, coded;
};
/// The one that serves, made where it is not there.
LoadedKernel& pick_kernel(Context& context, TermKernel& kernel, const SharedNumbers& numbers,
                          const std::function<codegen::KernelRequest()>& request);

/// A device buffer with these contents; one word of zeros for an empty span.
Buffer make_buffer(Context& context, std::span<const std::uint32_t> values, std::string_view name);
/// The same for numbers, in the precision of the engine.
Buffer make_buffer(Context& context, std::span<const double> values, std::string_view name);
/// Writes numbers at element `first` in the precision of the engine.
void write_numbers(Context& context, const Buffer& buffer, std::span<const double> values,
                   std::uint64_t first = 0);
void read_numbers(Context& context, const Buffer& buffer, std::span<double> values,
                  std::uint64_t first = 0);
/// An uninitialised buffer of `count` numbers in the precision of the engine (at least one).
Buffer make_numbers(Context& context, std::uint64_t count, std::string_view name);

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
void dispatch(Context& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, std::span<const std::byte> push, std::uint32_t groups);
template <class Constants>
void dispatch(Context& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, const Constants& constants, std::uint32_t groups) {
  dispatch(context, list, loaded, table, push_bytes(constants), groups);
}

/// Records as many dispatches as `count` invocations (or work items of workgroups) need;
/// `push.first` and `push.count` are set by it. Returns `push.out_first`, for reductions moved past
/// the partial sums that are written; for kernels that give values `push.costs_first()`, likewise.
std::uint32_t dispatch_all(Context& context, CommandList& list, const LoadedKernel& loaded,
                           const BindingTable& table, codegen::PushConstants push,
                           std::uint64_t count);

/// Partial sums of the cost that such dispatches of a kernel with values write, at most.
std::uint64_t most_value_sums(const Context& context, std::uint64_t count,
                              std::uint32_t workgroup_size, bool workgroup_items);

/// The same for the invocations from `first` on, of kernels that do not reduce. Returns the number
/// of dispatches.
std::uint32_t dispatch_range(Context& context, CommandList& list, const LoadedKernel& loaded,
                             const BindingTable& table, codegen::PushConstants push,
                             std::uint64_t first, std::uint64_t count);

}  // namespace topograd::runtime::vulkan
