// Buffers, bindings and dispatches for the parts of a Vulkan engine.
#include "context.hpp"

#include "../../ir/error.hpp"
#include "../../ir/parallel.hpp"
#include "on_device.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

namespace topograd::runtime::vulkan {
namespace {

constexpr std::size_t kKernelsInPlan = 64;

DeviceOptions device_options(const EngineOptions& options) {
  DeviceOptions made;
  made.device = options.device;
  made.mask = options.mask;
  made.limits.max_storage_buffer_range = options.max_storage_buffer_range;
  made.limits.max_allocation_size = options.max_allocation_size;
  made.limits.max_workgroup_invocations = options.max_workgroup_invocations;
  made.limits.shared_memory_bytes = options.shared_memory_bytes;
  made.validation = options.validation;
  return made;
}

std::uint32_t fitting_workgroup(const Limits& limits, std::uint32_t wanted) {
  std::uint32_t size = wanted;
  while (size > limits.max_workgroup_invocations || size > limits.max_workgroup_size_x) size /= 2;
  return size;
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
  Context context;
  context.device = std::make_shared<Device>(opened->core());
  context.cache = kernel_cache(opened);  // holds it, so that others find the device open
  context.compiled = std::make_shared<CompileAccount>();
  context.options = options;
  const DeviceInfo& info = context.device->info();
  if (context.wide() && !info.features.float64) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: precision f64 expects a device with float64, got \"" + info.name +
                    "\" without it; ask for f32");
  }
  std::optional<Accumulation> wanted = options.accumulation;
  // Atomics are never chosen for a batch alone: a record that has them has them everywhere.
  if (!wanted && options.plan && !options.plan->empty()) {
    const Accumulation given = options.plan->batches.front().accumulation;
    if (given == Accumulation::atomic_float || given == Accumulation::atomic_cas) wanted = given;
  }
  context.rung = resolve_rung(wanted, options.precision, info.features);
  context.flexible_columns = flexible_columns().value_or(!info.software());
  context.numbers_in_code_from = least_in_code(info.software());
  context.workgroup_size = fitting_workgroup(info.limits, 128);
  context.update_workgroup_size = fitting_workgroup(info.limits, info.software() ? 128 : 512);
  return context;
}

std::uint64_t Context::max_invocations() const {
  const std::uint64_t device_limit =
      std::uint64_t{device->limits().max_workgroups_x} * workgroup_size;
  const std::uint64_t asked = options.max_instances_per_dispatch;
  const std::uint64_t limit = asked == 0 ? device_limit : std::min(asked, device_limit);
  return std::min<std::uint64_t>(limit, std::numeric_limits<std::int32_t>::max());
}

namespace {

std::uint32_t groups_for(const Context& context, std::uint64_t count, std::uint32_t size,
                         std::uint64_t most) {
  const std::uint64_t groups = (count + size - 1) / size;
  most = std::min<std::uint64_t>(most, context.device->limits().max_workgroups_x);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(groups, 1, most));
}

}  // namespace

std::uint32_t Context::grid(std::uint64_t count) const {
  return groups_for(*this, count, workgroup_size, most_workgroups());
}

std::uint32_t Context::update_grid(std::uint64_t count) const {
  const std::uint32_t most = device->info().software() ? 16 : 264;
  return groups_for(*this, count, update_workgroup_size, most);
}

std::uint32_t Context::product_grid(std::uint64_t count) const {
  const std::uint32_t most = device->info().software() ? 16 : 1584;
  return groups_for(*this, count, workgroup_size, most);
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

/// All kinds of request ask for the same float controls and take the same way to a kernel.
template <class Request>
void complete(const Context& context, Request& request) {
  const Features& features = context.device->features();
  bool chosen = false;
  if constexpr (requires { request.workgroup_items; }) chosen = request.workgroup_items;
  if (!chosen) request.workgroup_size = context.workgroup_size;
  if constexpr (std::is_same_v<Request, codegen::VectorKernelRequest>) {
    using Op = codegen::VectorOp;
    // Few workgroups with much to sum; the software device sums with one subgroup.
    const bool coarse = request.op == Op::coarse_restrict || request.op == Op::coarse_multiply ||
                        request.op == Op::coarse_column;
    if (sums_for_products(request.op)) request.workgroup_size = context.update_workgroup_size;
    if (coarse)
      request.workgroup_size = context.item_workgroup_size(2ull * context.update_workgroup_size);
  }
  if constexpr (requires { request.scalars; }) request.scalars = context.scalar_precision();
  request.float_controls_f32 =
      features.signed_zero_inf_nan_preserve_f32 && features.denorm_preserve_f32;
  request.float_controls_f64 =
      features.signed_zero_inf_nan_preserve_f64 && features.denorm_preserve_f64;
}

template <class Request>
LoadedKernel load(Context& context, Request& request) {
  complete(context, request);
  LoadedKernel loaded{.workgroup_size = request.workgroup_size};
  loaded.job = context.cache->begin([made = std::move(request)] { return codegen::generate(made); },
                                    context.compiled);
  if (context.collecting) context.waits_for(loaded.job);
  if (context.loaded.size() < kKernelsInPlan) context.loaded.push_back(loaded.job);
  return loaded;
}

void complete_sums(const Context& context, codegen::KernelRequest& request) {
  request.precision = context.options.precision;
  request.use_subgroups = context.device->features().subgroup_arithmetic;
  request.tree_bytes = std::min(request.tree_bytes, context.device->limits().shared_memory_bytes);
  if (request.values.given) request.wide_sums = context.device->features().float64;
}

}  // namespace

ir::Hash128 source_hash(const Context& context, codegen::KernelRequest request) {
  complete_sums(context, request);
  complete(context, request);
  return codegen::generate(request).hash;
}

LoadedKernel load_kernel(Context& context, codegen::KernelRequest request) {
  complete_sums(context, request);
  const bool reduces = request.form == codegen::Form::reduce;
  const bool workgroup_items = request.workgroup_items, values = request.values.given;
  LoadedKernel loaded = load(context, request);
  loaded.reduces = reduces;
  loaded.values = values;
  loaded.workgroup_items = workgroup_items;
  return loaded;
}

LoadedKernel load_kernel(Context& context, codegen::VectorKernelRequest request) {
  request.vectors = context.options.precision;
  return load(context, request);
}

LoadedKernel load_kernel(Context& context, codegen::ProjectionRequest request) {
  request.precision = context.options.precision;
  return load(context, request);
}

Buffer make_buffer(Context& context, std::span<const std::uint32_t> values, std::string_view name) {
  static constexpr std::uint32_t kZero[1] = {0};
  if (values.empty()) values = kZero;
  Buffer buffer = context.device->buffer(values.size_bytes(), MemoryKind::Device, name);
  context.device->upload<std::uint32_t>(buffer, values);
  return buffer;
}

Buffer make_numbers(Context& context, std::uint64_t count, std::string_view name) {
  return context.device->buffer(std::max<std::uint64_t>(count, 1) * context.element_bytes(),
                                MemoryKind::Device, name);
}

Buffer make_buffer(Context& context, std::span<const double> values, std::string_view name) {
  static constexpr double kZero[1] = {0};
  if (values.empty()) values = kZero;
  Buffer buffer = make_numbers(context, values.size(), name);
  write_numbers(context, buffer, values);
  return buffer;
}

void write_numbers(Context& context, const Buffer& buffer, std::span<const double> values,
                   std::uint64_t first) {
  if (context.wide()) {
    context.device->upload<double>(buffer, values, first * sizeof(double));
    return;
  }
  std::vector<float> narrow(values.size());
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, values.size(), 1 << 16), [&](auto& range) {
    std::copy(values.begin() + range.begin(), values.begin() + range.end(),
              narrow.begin() + range.begin());
  });
  context.device->upload<float>(buffer, narrow, first * sizeof(float));
}

void read_numbers(Context& context, const Buffer& buffer, std::span<double> values,
                  std::uint64_t first) {
  if (context.wide()) {
    context.device->download<double>(buffer, values, first * sizeof(double));
    return;
  }
  std::vector<float> narrow(values.size());
  context.device->download<float>(buffer, narrow, first * sizeof(float));
  std::copy(narrow.begin(), narrow.end(), values.begin());
}

void BindingTable::set(codegen::BufferRole role, const Buffer& buffer, std::uint64_t offset,
                       std::uint64_t size) {
  slots_[static_cast<std::size_t>(role)] = {&buffer, offset, size};
}

std::vector<Binding> BindingTable::bind(const codegen::KernelSource& source) const {
  std::vector<Binding> bindings(source.bindings.size());
  for (const codegen::BindingInfo& info : source.bindings) {
    const Binding& slot = slots_[static_cast<std::size_t>(info.role)];
    if (slot.buffer == nullptr || !*slot.buffer) {
      throw Error(ErrorCode::Internal,
                  "kernel \"" + source.name + "\": no buffer for binding \"" + info.name + "\"");
    }
    bindings[info.binding] = slot;
  }
  return bindings;
}

std::uint32_t BindingTable::word(const codegen::ColumnForm& form) const {
  if (forms_ == nullptr) throw Error(ErrorCode::Internal, "no forms for flexible columns");
  using Word = codegen::ColumnForm::Word;
  const std::vector<std::uint32_t>& words = form.word == Word::index  ? forms_->index
                                            : form.word == Word::step ? forms_->step
                                                                      : forms_->data;
  return words.at(form.form);
}

void Context::waits_for(const std::shared_ptr<KernelJob>& job) {
  if (std::ranges::find(begun, job) == begun.end()) begun.push_back(job);
}

void dispatch(Context& context, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, std::span<const std::byte> push, std::uint32_t groups) {
  if (context.collecting) return context.waits_for(loaded.job);  // who else has begun it, too
  const MadeKernel& made = loaded.made();
  const std::size_t forms = made.source.forms.size();
  push = push.first(4 * (made.source.push_constants.size() - forms));
  if (forms == 0) {
    list.dispatch(made.kernel, table.bind(made.source), push, groups);
    return;
  }
  std::vector<std::byte> all(push.begin(), push.end());
  for (const codegen::ColumnForm& form : made.source.forms) {
    const std::uint32_t word = table.word(form);
    const auto bytes = std::as_bytes(std::span(&word, 1));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  list.dispatch(made.kernel, table.bind(made.source), all, groups);
}

std::uint32_t dispatch_all(Context& context, CommandList& list, const LoadedKernel& loaded,
                           const BindingTable& table, codegen::PushConstants push,
                           std::uint64_t count) {
  // One to a workgroup, no more workgroups than invocations would take.
  const std::uint32_t group = loaded.workgroup_items ? 1 : loaded.workgroup_size;
  const std::uint64_t most = std::max<std::uint64_t>(
      context.max_invocations() / (loaded.workgroup_items ? loaded.workgroup_size : 1), 1);
  const std::uint64_t step = most < group ? most : most / group * group;
  for (std::uint64_t first = 0; first < count; first += step) {
    const std::uint64_t n = std::min(step, count - first);
    auto groups = static_cast<std::uint32_t>((n + group - 1) / group);
    if (loaded.reduces) groups = std::min(groups, context.most_workgroups());
    if (loaded.values && !loaded.workgroup_items)
      groups = std::min(groups, context.product_grid(n));
    push.first = static_cast<std::uint32_t>(first);
    push.count = static_cast<std::uint32_t>(first + n);
    dispatch(context, list, loaded, table, push, groups);
    if (loaded.reduces) push.out_first += groups;
    if (loaded.values) push.costs_first() += groups;
  }
  return loaded.values ? push.costs_first() : push.out_first;
}

std::uint64_t most_value_sums(const Context& context, std::uint64_t count,
                              std::uint32_t workgroup_size, bool workgroup_items) {
  if (workgroup_items) return count;
  const std::uint64_t most = std::max<std::uint64_t>(context.max_invocations(), 1);
  const std::uint64_t step = most < workgroup_size ? most : most / workgroup_size * workgroup_size;
  return ((count + step - 1) / step) * context.product_grid(std::min(count, step));
}

std::uint32_t dispatch_range(Context& context, CommandList& list, const LoadedKernel& loaded,
                             const BindingTable& table, codegen::PushConstants push,
                             std::uint64_t first, std::uint64_t count) {
  const std::uint32_t group = loaded.workgroup_size;
  const std::uint64_t step = std::max<std::uint64_t>(context.max_invocations(), 1);
  std::uint32_t dispatches = 0;
  for (std::uint64_t done = 0; done < count; done += step, ++dispatches) {
    const std::uint64_t n = std::min(step, count - done);
    push.first = static_cast<std::uint32_t>(first + done);
    push.count = static_cast<std::uint32_t>(first + done + n);
    dispatch(context, list, loaded, table, push,
             static_cast<std::uint32_t>((n + group - 1) / group));
  }
  return dispatches;
}

}  // namespace topograd::runtime::vulkan
