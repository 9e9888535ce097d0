// Store, reduce and scatter passes of one term.
#include "device_term.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Unknowns that a residual reads at most. Compilers of drivers take time with more than the first
/// power of a kernel's length, and NVIDIA's (580.159) fails where it reads 300.
constexpr std::uint32_t kMostUnknowns = 256;

/// Drivers' compilers take minutes for such kernels.
[[noreturn]] void refuse_width(const Term& term) {
  throw Error(ErrorCode::Unsupported,
              "vulkan: expected residuals that read at most " + std::to_string(kMostUnknowns) +
                  " unknowns, got one that reads " +
                  std::to_string(term.topology->program.leaves.parameters) + ", \"" + term.name +
                  "\": split it into several residuals, or solve on backend cpu");
}

/// Terms of wide residuals are stored, which needs one range.
[[noreturn]] void refuse_terms(const Context& context, const DeviceTerm& term) {
  throw Error(ErrorCode::Unsupported,
              "vulkan: kernel \"" + term.shape().name + "\" has " +
                  std::to_string(term.instances()) + " residuals that read " +
                  std::to_string(term.slots()) +
                  " unknowns each, whose terms need a storage buffer range of " +
                  std::to_string(term.instances() * term.slots() * context.element_bytes()) +
                  " bytes, the device has " + std::to_string(context.max_range()) +
                  ": solve on backend cpu");
}

/// As the kernels of the device need it.
TermShape make_shape(const Context& context, const Term& term, const Model& model) {
  const std::size_t unknowns = term.topology->program.leaves.parameters;
  if (unknowns > kMostUnknowns) refuse_width(term);
  TermShape shape = shape_of(term, model.arrays);
  shape.flexible = context.flexible_columns
                       ? flexible_since_met(*shape.topology, shape.groups, shape.flexible)
                       : FlexibleColumns{};
  lay_out(shape);
  return shape;
}

/// Numbers that a store pass writes for an instance.
std::uint32_t pass_width(const TermShape& shape, Pass pass) {
  const auto rows = static_cast<std::uint32_t>(shape.topology->program.outputs.size());
  const std::uint32_t slots = shape.topology->program.leaves.parameters;
  const auto of_groups = [&] { return static_cast<std::uint32_t>(slots_of(shape, pass).size()); };
  switch (pass) {
    case Pass::residual:
    case Pass::jvp: return rows;
    case Pass::cost:
    case Pass::guards: return 1;
    case Pass::jacobian: return rows * slots;
    case Pass::stored_jacobian: return rows * of_groups();
    case Pass::vjp: return slots;
    case Pass::hessian: return slots * (slots + 1) / 2;
    case Pass::gradient:
    case Pass::jtjp:
    case Pass::blocks:
    case Pass::hvp:
    case Pass::cost_gradient:
    case Pass::values:
    case Pass::stored_jtjp:
    case Pass::diagonal: break;
  }
  return of_groups();
}

}  // namespace

DeviceTerm::DeviceTerm(Context& context, const Term& term, const Model& model)
    : context_(context),
      model_(model),
      batch_(*term.batch),
      general_{.view = {.shape = make_shape(context, term, model), .batch = term.batch}},
      columns_(context, batch_, shape(), std::uint64_t{outputs()} * slots()),
      numbers_(batch_) {
  general_.view.forms = &columns_.forms();
  general_.view.numbers = &numbers_.found();
  if (is_wide(shape().groups) && !terms_fit()) refuse_terms(context, *this);
}

void DeviceTerm::set_mask(std::vector<std::uint32_t> fixed,
                          std::span<const std::uint8_t> constant) {
  without_fixed_.view = general_.view;
  without_fixed_.view.shape.fixed = std::move(fixed);
  without_fixed_.constant = constant;
}

bool DeviceTerm::refresh_data(bool own) {
  const bool moved = columns_.refresh(own);
  for (Variant* variant : {&general_, &without_fixed_}) {
    if (!variant->sets) continue;
    for (auto& set : *variant->sets) set->refresh_data(moved, own);
  }
  return moved;
}

std::uint64_t DeviceTerm::host_bytes() const {
  std::uint64_t bytes = 0;
  for (const Variant* variant : {&general_, &without_fixed_}) {
    if (!variant->sets) continue;
    for (const auto& set : *variant->sets) bytes += set->host_bytes();
  }
  return bytes;
}

std::uint64_t DeviceTerm::stored_size(Pass pass) const {
  return batch_.size() * pass_width(shape(), pass);
}

bool DeviceTerm::terms_fit() const {
  return columns_.chunks().size() == 1 &&
         batch_.size() * slots() * context_.element_bytes() <= context_.max_range();
}

const LoadedKernel& DeviceTerm::store_kernel(const CommandList& list, Pass pass,
                                             const Operands& operands) {
  // The data columns of stored_jtjp are others.
  const bool own_data = pass != Pass::stored_jtjp, predicated = operands.scalars != nullptr;
  return serving_kernel(context_, list, serving().store[{pass, predicated}],
                        own_data ? numbers_.found() : SharedNumbers{}, [&] {
                          codegen::KernelRequest made = store_request(shape(), pass);
                          made.predicated = predicated;
                          return made;
                        });
}

const LoadedKernel& DeviceTerm::scatter_kernel(const CommandList& list, Pass pass,
                                               const Operands& operands) {
  const bool predicated = operands.scalars != nullptr;
  return serving_kernel(context_, list, serving().scatter[{pass, predicated}], numbers_.found(),
                        [&] {
                          codegen::KernelRequest made =
                              scatter_request(shape(), pass, context_.accumulation.accumulation);
                          made.predicated = predicated;
                          return made;
                        });
}

void DeviceTerm::run(CommandList& list, const LoadedKernel& kernel, const Operands& operands,
                     ValueSinks* sinks, const BindOut& bind_out) {
  BindingTable bindings = bind_operands(operands);
  const std::uint64_t row_bytes = std::uint64_t{context_.element_bytes()} * outputs();
  for (const TermColumns::Chunk& chunk : columns_.chunks()) {
    const std::uint64_t first = chunk.first * row_bytes, size = chunk.count * row_bytes;
    columns_.bind(bindings, chunk);
    bind_out(bindings, chunk);
    if (operands.seeds != nullptr) bindings.set(BufferRole::seeds, *operands.seeds, first, size);
    codegen::PushConstants push{.stride = chunk.count, .out_stride = chunk.count};
    if (sinks != nullptr) {
      bind_sinks(bindings, *sinks);
      push.costs_first() = sinks->next;
      push.rows_stride() = chunk.count;
      if (sinks->rows != nullptr) bindings.set(BufferRole::rows, *sinks->rows, first, size);
    }
    const std::uint64_t before = list.dispatches();
    const std::uint32_t next = dispatch_all(context_, list, kernel, bindings, push, chunk.count);
    if (sinks != nullptr) sinks->next = next;
    context_.term_dispatches += list.dispatches() - before;
  }
}

void DeviceTerm::record_store(CommandList& list, Pass pass, const Operands& operands,
                              const Buffer& out, ValueSinks* sinks) {
  const std::uint64_t bytes = std::uint64_t{context_.element_bytes()} * pass_width(shape(), pass);
  run(list, store_kernel(list, pass, operands), operands, sinks,
      [&](BindingTable& bindings, const TermColumns::Chunk& chunk) {
        bindings.set(BufferRole::results, out, chunk.first * bytes, chunk.count * bytes);
      });
}

void DeviceTerm::record_scatter(CommandList& list, Pass pass, const Operands& operands,
                                const Buffer& out, ValueSinks* sinks) {
  run(list, scatter_kernel(list, pass, operands), operands, sinks,
      [&](BindingTable& bindings, const TermColumns::Chunk&) {
        bindings.set(BufferRole::results, out);
      });
}

std::uint32_t DeviceTerm::record_cost(CommandList& list, const Operands& operands,
                                      const Buffer& partials, std::uint32_t first) {
  const LoadedKernel& kernel = serving_kernel(context_, list, cost_kernel_, numbers_.found(), [&] {
    codegen::KernelRequest made = cost_request(general_.view.shape);
    made.wide_sums = context_.scalar_precision() == Precision::f64;
    return made;
  });
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::results, partials);
  std::uint32_t next = first;
  for (const TermColumns::Chunk& chunk : columns_.chunks()) {
    columns_.bind(bindings, chunk);
    const std::uint64_t before = list.dispatches();
    next = dispatch_all(context_, list, kernel, bindings,
                        {.stride = chunk.count, .out_first = next}, chunk.count);
    context_.term_dispatches += list.dispatches() - before;
  }
  return next - first;
}

void DeviceTerm::record_hessians(CommandList& list, const Operands& operands, std::uint32_t first,
                                 std::uint32_t count, const Buffer& out) {
  const LoadedKernel& kernel = store_kernel(list, Pass::hessian, operands);
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::results, out);
  for (const TermColumns::Chunk& chunk : columns_.chunks()) {
    if (first < chunk.first || first >= chunk.first + chunk.count) continue;
    columns_.bind(bindings, chunk);
    const std::uint32_t skipped = first - chunk.first;
    // Results begin at 0: the kernel adds the instance's place in the chunk, modulo 2^32.
    context_.term_dispatches += dispatch_range(
        context_, list, kernel, bindings,
        {.stride = chunk.count, .out_stride = count, .out_first = 0u - skipped}, skipped, count);
  }
}

void DeviceTerm::record_stored_jtjp(CommandList& list, const Buffer& jacobian,
                                    const Operands& operands, const Buffer& out) {
  const LoadedKernel& kernel = store_kernel(list, Pass::stored_jtjp, operands);
  BindingTable bindings = bind_operands(operands);
  const std::uint64_t bytes = context_.element_bytes();
  const std::uint64_t entries = pass_width(shape(), Pass::stored_jacobian);
  const std::uint64_t terms = pass_width(shape(), Pass::stored_jtjp);
  for (const TermColumns::Chunk& chunk : columns_.chunks()) {
    const std::uint64_t offset = chunk.first * bytes, size = chunk.count * bytes;
    columns_.bind(bindings, chunk);
    bindings.set(BufferRole::data_columns, jacobian, offset * entries, size * entries);
    bindings.set(BufferRole::results, out, offset * terms, size * terms);
    dispatch_all(context_, list, kernel, bindings,
                 {.stride = chunk.count, .out_stride = chunk.count}, chunk.count);
  }
}

std::vector<std::unique_ptr<GatherSet>>& DeviceTerm::gather_sets() {
  Variant& variant = serving();
  if (variant.sets) return *variant.sets;
  const auto start = std::chrono::steady_clock::now();
  std::vector<GatherPlan> plans =
      is_wide(shape().groups)
          ? invert_terms(batch_, slots_of(shape(), Pass::gradient), model_.scalars,
                         variant.constant)
          : invert(batch_, shape().groups, model_.arrays, model_.scalars, variant.constant);
  variant.sets.emplace();
  for (GatherPlan& plan : plans)
    variant.sets->push_back(std::make_unique<GatherSet>(context_, variant.view, std::move(plan)));
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return *variant.sets;
}

GatherSet* DeviceTerm::value_set(Pass pass) {
  if (pass == Pass::values && columns_.chunks().size() > 1) return nullptr;  // rows lie by chunk
  for (auto& set : gather_sets()) {
    if (set->lead()) return set.get();
  }
  return nullptr;
}

}  // namespace topograd::runtime::vulkan
