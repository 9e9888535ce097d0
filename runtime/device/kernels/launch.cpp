// Kernels, buffers, bindings and dispatches on a device.
#include "launch.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "kernel_cache.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr std::size_t kKernelsInPlan = 64;

void complete(const LaunchContext& context, codegen::KernelRequest& request) {
  request.precision = context.precision;
  // Subgroups have no sums of emulated numbers.
  const Features& features = context.device->features();
  request.use_subgroups = features.subgroup_arithmetic && !features.emulated_float64;
  request.tree_bytes = std::min(request.tree_bytes, context.device->limits().shared_memory_bytes);
  if (request.values.given) request.wide_sums = context.scalar_precision() == Precision::f64;
  if (!request.workgroup_items) request.workgroup_size = context.workgroup_size;
  request.scalars = context.scalar_precision();
  set_float_controls(context, request);
}

}  // namespace

LaunchContext make_launch_context(const std::shared_ptr<Device>& opened, Precision precision) {
  LaunchContext context;
  context.device = std::make_shared<Device>(opened->core());
  context.cache = kernel_cache(opened);  // holds it, so that other threads find the device open
  context.compiled = std::make_shared<CompileAccount>();
  context.precision = precision;
  const DeviceInfo& info = context.device->info();
  if (context.wide() && !info.features.has_float64()) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: precision f64 expects a device with float64, got \"" + info.name +
                    "\" without it; ask for f32, or for emulated float64");
  }
  context.workgroup_size = fitting_workgroup(info.limits, 128);
  return context;
}

std::uint32_t fitting_workgroup(const Limits& limits, std::uint32_t wanted) {
  std::uint32_t size = wanted;
  while (size > limits.max_workgroup_invocations || size > limits.max_workgroup_size_x) size /= 2;
  return size;
}

std::uint32_t groups_for(const LaunchContext& context, std::uint64_t count, std::uint32_t size,
                         std::uint64_t most) {
  const std::uint64_t groups = (count + size - 1) / size;
  most = std::min<std::uint64_t>(most, context.device->limits().max_workgroups_x);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(groups, 1, most));
}

std::uint64_t LaunchContext::max_invocations() const {
  const std::uint64_t device_limit =
      std::uint64_t{device->limits().max_workgroups_x} * workgroup_size;
  const std::uint64_t asked = max_invocations_per_dispatch;
  const std::uint64_t limit = asked == 0 ? device_limit : std::min(asked, device_limit);
  return std::min<std::uint64_t>(limit, std::numeric_limits<std::int32_t>::max());
}

std::uint32_t LaunchContext::grid(std::uint64_t count) const {
  return groups_for(*this, count, workgroup_size, most_workgroups());
}

std::uint32_t LaunchContext::product_grid(std::uint64_t count) const {
  const std::uint32_t most = device->info().software() ? 16 : 1584;
  return groups_for(*this, count, workgroup_size, most);
}

void DeclaredKernels::add(const LoadedKernel& kernel) {
  if (std::ranges::find(jobs_, kernel.job) == jobs_.end()) jobs_.push_back(kernel.job);
}

LoadedKernel begin_kernel(LaunchContext& context, std::function<codegen::KernelSource()> generate,
                          std::uint32_t workgroup_size) {
  LoadedKernel loaded{.workgroup_size = workgroup_size};
  loaded.job = context.cache->begin(std::move(generate), context.compiled);
  if (context.loaded.size() < kKernelsInPlan) context.loaded.push_back(loaded.job);
  return loaded;
}

ir::Hash128 source_hash(const LaunchContext& context, codegen::KernelRequest request) {
  complete(context, request);
  return codegen::generate(request).hash;
}

LoadedKernel load_kernel(LaunchContext& context, codegen::KernelRequest request) {
  complete(context, request);
  const bool reduces = request.form == codegen::Form::reduce;
  const bool workgroup_items = request.workgroup_items, values = request.values.given;
  const std::uint32_t workgroup_size = request.workgroup_size;
  LoadedKernel loaded = begin_kernel(
      context, [made = std::move(request)] { return codegen::generate(made); }, workgroup_size);
  loaded.reduces = reduces;
  loaded.values = values;
  loaded.workgroup_items = workgroup_items;
  return loaded;
}

Buffer make_buffer(LaunchContext& context, std::span<const std::uint32_t> values,
                   std::string_view name) {
  static constexpr std::uint32_t kZero[1] = {0};
  if (values.empty()) values = kZero;
  Buffer buffer = context.device->buffer(values.size_bytes(), MemoryKind::Device, name);
  context.device->upload<std::uint32_t>(buffer, values);
  return buffer;
}

Buffer make_numbers(LaunchContext& context, std::uint64_t count, std::string_view name) {
  return context.device->buffer(std::max<std::uint64_t>(count, 1) * context.element_bytes(),
                                MemoryKind::Device, name);
}

Buffer make_buffer(LaunchContext& context, std::span<const double> values, std::string_view name) {
  static constexpr double kZero[1] = {0};
  if (values.empty()) values = kZero;
  Buffer buffer = make_numbers(context, values.size(), name);
  write_numbers(context, buffer, values);
  return buffer;
}

void write_numbers(LaunchContext& context, const Buffer& buffer, std::span<const double> values,
                   std::uint64_t first) {
  if (context.wide()) {
    context.device->upload<double>(buffer, values, first * sizeof(double));
    return;
  }
  std::vector<float> narrow(values.size());
  ir::parallel_pieces(values.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
    std::ranges::copy(values.subspan(begin, end - begin), narrow.data() + begin);
  });
  context.device->upload<float>(buffer, narrow, first * sizeof(float));
}

void read_numbers(LaunchContext& context, const Buffer& buffer, std::span<double> values,
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

namespace {

const RecordingWatch*& watch() {
  static const RecordingWatch* watching = nullptr;
  return watching;
}

}  // namespace

void set_recording_watch(const RecordingWatch* watching) { watch() = watching; }
const RecordingWatch* recording_watch() { return watch(); }

namespace {

/// Hash of the topology that the header of a kernel of residuals names; empty: another kernel.
std::string_view topology_of(const codegen::KernelSource& source) {
  constexpr std::string_view kBefore = " of topology ";
  constexpr std::size_t kDigits = 32;
  const std::string_view title = std::string_view(source.glsl).substr(0, source.glsl.find('\n'));
  const std::size_t at = title.find(kBefore);
  return at == title.npos ? std::string_view() : title.substr(at + kBefore.size(), kDigits);
}

/// The word of a push constant of that name.
std::uint64_t word_of(const codegen::KernelSource& source, std::span<const std::byte> push,
                      std::string_view name) {
  const auto found = std::ranges::find(source.push_constants, name);
  const auto index = static_cast<std::size_t>(found - source.push_constants.begin());
  std::uint32_t word = 0;
  if (4 * index + 4 <= push.size()) std::memcpy(&word, push.data() + 4 * index, sizeof word);
  return word;
}

/// Bytes that a vector kernel moves of the buffers that it binds; 0: unknown.
std::uint64_t vector_bytes(const codegen::KernelSource& source,
                           const BindingTable::Amount& amount) {
  using Role = codegen::BufferRole;
  std::uint64_t bytes = 0;
  for (const codegen::BindingInfo& info : source.bindings) {
    const std::uint64_t passes = (info.reads ? 1 : 0) + (info.writes ? 1 : 0);
    const std::uint64_t number = info.element == codegen::Element::f64 ? 8 : 4;
    const bool is_vector = info.role == Role::x || info.role == Role::direction ||
                           info.role == Role::results ||
                           (info.role >= Role::first_operand && info.role <= Role::damping) ||
                           info.role == Role::next_direction;
    const bool is_packed = info.role == Role::blocks || info.role == Role::inverse_blocks;
    const bool is_small = info.role == Role::scalars || info.role == Role::partials ||
                          info.role == Role::fixed_scalars || info.role == Role::decision ||
                          info.role == Role::curvature;
    if (!is_vector && !is_packed && !is_small) return 0;
    if (is_vector) bytes += passes * number * amount.numbers;
    if (is_packed) bytes += passes * number * amount.packed_numbers;
  }
  return bytes;
}

/// Tells a list that takes times what the dispatch is. Bytes are those of the kernel's header times
/// the instances of the dispatch, or the vectors that a vector kernel reads and writes.
void describe(CommandList& list, const codegen::KernelSource& source, const BindingTable& table,
              std::span<const std::byte> push) {
  const BindingTable::Amount& amount = table.amount();
  std::uint64_t bytes = 0;
  if (source.bytes_per_instance > 0) {
    const std::uint64_t items = word_of(source, push, "count") - word_of(source, push, "first");
    bytes = static_cast<std::uint64_t>(static_cast<double>(items * source.bytes_per_instance) *
                                       amount.instances_per_item);
  } else if (amount.numbers > 0) {
    bytes = vector_bytes(source, amount);
  }
  list.name_next(source.name, topology_of(source), bytes);
}

}  // namespace

void dispatch(LaunchContext&, CommandList& list, const LoadedKernel& loaded,
              const BindingTable& table, std::span<const std::byte> push, std::uint32_t groups) {
  if (DeclaredKernels* const declared = list.declared()) return declared->add(loaded);
  if (watch() != nullptr) watch()->used(*loaded.job);
  const MadeKernel& made = loaded.made();
  if (list.takes_times()) describe(list, made.source, table, push);
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

std::uint32_t dispatch_all(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
                           const BindingTable& table, codegen::PushConstants push,
                           std::uint64_t count) {
  // One workgroup per item, but no more workgroups than for one invocation per item.
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

std::uint64_t most_value_sums(const LaunchContext& context, std::uint64_t count,
                              std::uint32_t workgroup_size, bool workgroup_items) {
  if (workgroup_items) return count;
  const std::uint64_t most = std::max<std::uint64_t>(context.max_invocations(), 1);
  const std::uint64_t step = most < workgroup_size ? most : most / workgroup_size * workgroup_size;
  return ((count + step - 1) / step) * context.product_grid(std::min(count, step));
}

std::uint32_t dispatch_range(LaunchContext& context, CommandList& list, const LoadedKernel& loaded,
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
