// Store, reduce and scatter passes of one term.
#include "device_term.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "../../../ir/batch/unset_vector.hpp"
#include "../../../ir/error.hpp"
#include "../../plan/column_forms.hpp"

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
    // Results begin at 0: the kernel adds the instance's index in the chunk, modulo 2^32.
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

namespace {

bool may_be_code(double value, bool wide) {
  return wide ? std::isnormal(value) : std::isnormal(static_cast<float>(value));
}

}  // namespace

bool NumbersInCode::find(const Context& context) {
  found_.clear();
  if (batch_.size() < context.numbers_in_code_from) return false;
  for (std::uint32_t k = 0; k < batch_.data_columns(); ++k) {
    std::optional<double> number = shared_number(batch_, k);
    if (number && !may_be_code(*number, context.wide())) number.reset();
    found_.push_back(number);
  }
  if (std::ranges::none_of(found_, [](const auto& n) { return n.has_value(); })) found_.clear();
  return !found_.empty();
}

bool NumbersInCode::hold() const {
  for (std::uint32_t k = 0; k < found_.size(); ++k) {
    if (!found_[k]) continue;
    const std::optional<double> number = shared_number(batch_, k);
    if (!number ||
        std::bit_cast<std::uint64_t>(*number) != std::bit_cast<std::uint64_t>(*found_[k]))
      return false;
  }
  return true;
}

codegen::ColumnLayout NumbersInCode::left_out_of(codegen::ColumnLayout layout) const {
  for (std::size_t k = 0; k < found_.size(); ++k) {  // flexible columns count for nothing
    if (found_[k]) layout.data[k].kind = codegen::DataSource::Kind::flexible;
  }
  return layout;
}

namespace {

/// Chunks begin at multiples of this many instances, so that offsets into results are aligned.
constexpr std::uint64_t kChunkAlignment = 256;

}  // namespace

TermColumns::TermColumns(Context& context, const ir::Batch& batch, const TermShape& shape,
                         std::uint64_t row_numbers)
    : context_(context), batch_(batch), shape_(shape), forms_(find_forms(batch, shape.layout)) {
  const codegen::ColumnLayout& layout = shape_.layout;
  const std::uint64_t bytes = std::max<std::uint64_t>(
      {4ull * layout.index_columns, std::uint64_t{context_.element_bytes()} * layout.data_columns,
       std::uint64_t{context_.element_bytes()} * row_numbers, 4ull});
  const std::uint64_t shared = bytes;  // numbers that all rows share
  std::uint64_t most = (context_.max_range() - std::min(context_.max_range(), shared)) / bytes;
  if (most < batch_.size()) most = most / kChunkAlignment * kChunkAlignment;
  if (most == 0) {
    throw Error(ErrorCode::Unsupported, "kernel \"" + shape_.name +
                                            "\": expected a storage buffer range of at least " +
                                            std::to_string(bytes * kChunkAlignment) +
                                            " bytes, got " + std::to_string(context_.max_range()));
  }
  for (std::uint64_t first = 0; first < batch_.size(); first += most) {
    Chunk chunk;
    chunk.first = static_cast<std::uint32_t>(first);
    chunk.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, batch_.size() - first));
    upload_index(chunk);
    upload_data(chunk);
    chunks_.push_back(std::move(chunk));
  }
}

void TermColumns::upload_index(Chunk& chunk) {
  const StoredColumns stored = stored_columns(shape_.layout);
  const std::size_t by_row = forms_.stored_index() * std::size_t{chunk.count};
  ir::UnsetVector<std::uint32_t> index(by_row + forms_.index.size() - forms_.stored_index());
  auto shared = index.begin() + static_cast<std::ptrdiff_t>(by_row);
  chunk.words.index = form_words(forms_.index, chunk.count);
  for (std::size_t c = 0, at = 0; c < forms_.index.size(); ++c) {
    const IndexForm& form = forms_.index[c];
    chunk.words.step.push_back(form.stored ? 0 : form.step);
    if (form.stored) {
      copy_column(batch_, stored.index[c], chunk.first, std::span(index).subspan(at, chunk.count));
      at += chunk.count;
    } else {
      *shared++ = form.base + form.step * chunk.first;
    }
  }
  chunk.index = make_buffer(context_, index, shape_.name + "_index");
}

void TermColumns::upload_data(Chunk& chunk, bool own) {
  const StoredColumns stored = stored_columns(shape_.layout);
  const std::size_t by_row = forms_.stored_data() * std::size_t{chunk.count};
  ir::UnsetVector<double> data(by_row + forms_.data.size() - forms_.stored_data());
  auto shared = data.begin() + static_cast<std::ptrdiff_t>(by_row);
  for (std::size_t c = 0, at = 0; c < forms_.data.size(); ++c) {
    if (forms_.data[c].stored) {
      const bool there = chunk.resident.add(context_, batch_, stored.data[c], at, chunk.count);
      if (!there && (own || batch_.resident(stored.data[c]))) {
        const auto column = std::span(data).subspan(at, chunk.count);
        copy_column(batch_, stored.data[c], chunk.first, column);
        if (!own) write_numbers(context_, chunk.data, column, at);
      }
      at += chunk.count;
    } else {
      *shared++ = forms_.data[c].value;
    }
  }
  if (!chunk.data) {
    chunk.words.data = form_words(forms_.data, chunk.count);
    chunk.data = make_numbers(context_, data.size(), shape_.name + "_data");
  }
  const auto write = [&](std::uint64_t first, std::uint64_t count) {
    write_numbers(context_, chunk.data, std::span(data).subspan(first, count), first);
  };
  if (own) chunk.resident.each_other(data.size(), write);
  chunk.resident.take(context_, batch_, chunk.data, {}, chunk.first);
}

void TermColumns::bind(BindingTable& table, const Chunk& chunk) const {
  table.set(BufferRole::index_columns, chunk.index);
  table.set(BufferRole::data_columns, chunk.data);
  table.set(chunk.words);
}

bool TermColumns::refresh(bool own) {
  const bool moved = own && refresh_data_forms(batch_, shape_.layout, forms_);
  for (Chunk& chunk : chunks_) {
    if (moved) chunk.data = Buffer();
    upload_data(chunk, own);
  }
  return moved;
}

std::uint32_t TermColumns::cost_partials() const {
  // Each dispatch rounds its instances up to whole workgroups.
  std::uint64_t partials = 0;
  for (const Chunk& chunk : chunks_) {
    const std::uint64_t dispatches = chunk.count / context_.max_invocations() + 1;
    partials += chunk.count / context_.workgroup_size + 1 + dispatches;
    if (context_.max_invocations() < context_.workgroup_size) partials += dispatches;
  }
  return static_cast<std::uint32_t>(partials);
}

std::uint32_t TermColumns::chunk_end(std::uint32_t first) const {
  for (const Chunk& chunk : chunks_) {
    if (first < chunk.first + chunk.count) return chunk.first + chunk.count;
  }
  return first;
}

void TermColumns::to_device_order(std::span<const double> by_instance, std::span<double> stored,
                                  std::uint32_t columns) const {
  for (const Chunk& chunk : chunks_) {
    for (std::uint32_t k = 0; k < columns; ++k) {
      double* out = &stored[std::size_t{chunk.first} * columns + std::size_t{k} * chunk.count];
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        out[i] = by_instance[(std::size_t{chunk.first} + i) * columns + k];
      }
    }
  }
}

void TermColumns::from_device_order(std::span<const double> stored, std::span<double> by_instance,
                                    std::uint32_t columns) const {
  for (const Chunk& chunk : chunks_) {
    for (std::uint32_t k = 0; k < columns; ++k) {
      const double* in = &stored[std::size_t{chunk.first} * columns + std::size_t{k} * chunk.count];
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        by_instance[(std::size_t{chunk.first} + i) * columns + k] = in[i];
      }
    }
  }
}

}  // namespace topograd::runtime::vulkan
