// Choices of a Vulkan engine on its device, and the kernels that depend on them.
#include "context.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "../../../codegen/vector/source.hpp"
#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {
namespace {

DeviceOptions device_options(const EngineOptions& options) {
  DeviceOptions made;
  made.device = options.device;
  made.mask = options.mask;
  made.float64 = options.float64;
  made.limits.max_storage_buffer_range = options.max_storage_buffer_range;
  made.limits.max_allocation_size = options.max_allocation_size;
  made.limits.max_workgroup_invocations = options.max_workgroup_invocations;
  made.limits.shared_memory_bytes = options.shared_memory_bytes;
  made.validation = options.validation;
  return made;
}

std::optional<bool>& flexible_columns() {
  static std::optional<bool> wanted;
  return wanted;
}

std::optional<bool>& numbers_in_code() {
  static std::optional<bool> wanted;
  return wanted;
}

/// On a software device kernels of a chain took 5 to 36 % less; its driver compiles a kernel where
/// it first runs, which some hundred evaluations of so many instances pay for. On an H200 they took
/// 1 to 14 % less, and a step by conjugate gradients nothing: not worth the compiling.
std::uint64_t least_in_code(bool software) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 18, kNever = ~std::uint64_t{0};
  if (numbers_in_code()) return *numbers_in_code() ? 0 : kNever;
  return software ? kMany : kNever;
}

}  // namespace

void set_flexible_columns(std::optional<bool> wanted) { flexible_columns() = wanted; }
void set_numbers_in_code(std::optional<bool> wanted) { numbers_in_code() = wanted; }

Context open_context(const EngineOptions& options) {
  return make_context(open(device_options(options)), options);
}

Context make_context(const std::shared_ptr<Device>& opened, const EngineOptions& options) {
  Context context{make_launch_context(opened, options.precision)};
  context.max_invocations_per_dispatch = options.max_instances_per_dispatch;
  context.options = options;
  // The f32 side of a solve in both precisions reads the other side's sums.
  context.wide_scalars = options.narrow_system && options.precision == Precision::f32;
  const DeviceInfo& info = context.device->info();
  std::optional<Accumulation> wanted = options.accumulation;
  // Atomics are never chosen for a batch alone: a record that has them has them everywhere.
  if (!wanted && options.plan && !options.plan->empty()) {
    const Accumulation given = options.plan->batches.front().accumulation;
    if (codegen::row_of(given).atomic) wanted = given;
  }
  context.accumulation = choose_accumulation(wanted, options.precision, info.features);
  context.flexible_columns = flexible_columns().value_or(!info.software());
  context.numbers_in_code_from = least_in_code(info.software());
  context.update_workgroup_size = fitting_workgroup(info.limits, info.software() ? 128 : 512);
  return context;
}

std::uint32_t Context::update_grid(std::uint64_t count) const {
  const std::uint32_t most = device->info().software() ? 16 : 264;
  return groups_for(*this, count, update_workgroup_size, most);
}

std::uint32_t Context::item_workgroup_size(std::uint64_t entries) const {
  // The software device runs a subgroup as one thread: beyond that, barriers cost more than sums.
  const Limits& limits = device->limits();
  if (device->info().software()) {
    return fitting_workgroup(limits, std::max(std::bit_floor(limits.subgroup_size), 8u));
  }
  // Two entries an invocation: with fewer of them there are more idle ones than there is to gain.
  const std::uint64_t wanted = std::bit_floor(std::clamp<std::uint64_t>(entries / 2, 32, 512));
  return fitting_workgroup(limits, static_cast<std::uint32_t>(wanted));
}

namespace {

/// Data become literals; nothing is folded.
void put_in(ir::Program& program, const SharedNumbers& numbers) {
  for (ir::Node& node : program.nodes) {
    if (node.op != ir::Op::Data || node.slot() >= numbers.size()) continue;
    if (const std::optional<double>& number = numbers[node.slot()])
      node = ir::make_literal(*number);
  }
}

/// Both kinds of request take the same way to a kernel.
template <class Request>
LoadedKernel load(Context& context, Request& request) {
  request.workgroup_size = context.workgroup_size;
  if constexpr (std::is_same_v<Request, codegen::VectorKernelRequest>) {
    // Few workgroups with much to sum; the software device sums with one subgroup.
    const codegen::GroupCount groups = codegen::row(request.op).groups;
    if (groups == codegen::GroupCount::few) request.workgroup_size = context.update_workgroup_size;
    if (groups == codegen::GroupCount::items)
      request.workgroup_size = context.item_workgroup_size(2ull * context.update_workgroup_size);
    if (groups == codegen::GroupCount::tiles) request.workgroup_size = codegen::kTileInvocations;
  }
  if constexpr (requires { request.scalars; }) request.scalars = context.scalar_precision();
  set_float_controls(context, request);
  const std::uint32_t workgroup_size = request.workgroup_size;
  return begin_kernel(
      context, [made = std::move(request)] { return codegen::generate(made); }, workgroup_size);
}

}  // namespace

LoadedKernel load_kernel(Context& context, codegen::VectorKernelRequest request) {
  request.vectors = context.options.precision;
  return load(context, request);
}

LoadedKernel load_kernel(Context& context, codegen::ProjectionRequest request) {
  request.precision = context.options.precision;
  return load(context, request);
}

const LoadedKernel& serving_kernel(Context& context, const CommandList& list, TermKernel& kernel,
                                   const SharedNumbers& numbers,
                                   const std::function<codegen::KernelRequest()>& request) {
  const bool declares = list.declared() != nullptr;
  if (declares && context.code == Code::make && !kernel.coded && !numbers.empty()) {
    codegen::KernelRequest made = request();
    put_in(made.program, numbers);
    for (codegen::GatherSlot& block_slot : made.block_slots) {
      if (!block_slot.is_fused) put_in(block_slot.program, numbers);
    }
    kernel.coded = load_kernel(context, std::move(made));
  }
  if (context.code != Code::general && kernel.coded) return kernel.coded;
  if (!kernel.general && declares) kernel.general = load_kernel(context, request());
  if (!kernel.general)
    throw Error(ErrorCode::Internal, "a kernel of residuals is recorded, but was not declared");
  return kernel.general;
}

const Buffer& no_buffer() {
  static const Buffer kNone;
  return kNone;
}

using codegen::Accumulation;
using codegen::Precision;

AccumulationChoice choose_accumulation(std::optional<Accumulation> wanted, Precision precision,
                                       const Features& features) {
  const Accumulation strategy = wanted.value_or(Accumulation::gather_recompute);
  const codegen::AccumulationRow& row = codegen::row_of(strategy);
  const codegen::AccumulationNeeds& needs =
      precision == Precision::f64 ? row.f64_needs : row.f32_needs;
#define TG_ACCUMULATION_NEED(feature, missing) \
  if (needs.feature && !features.feature) return {Accumulation::gather_recompute, missing};
#include "../../../codegen/accumulations.def"
  return {strategy, ""};
}

}  // namespace topograd::runtime::vulkan
