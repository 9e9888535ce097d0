// Chunks, store, reduce and scatter passes of one term.
#include "device_term.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/error.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Chunks begin at multiples of this many instances, so that offsets into results are aligned.
constexpr std::uint64_t kChunkAlignment = 256;
constexpr std::uint64_t kFunctionCost = 20;

/// Unknowns that a residual reads at most. Compilers of drivers take time with more than the first
/// power of a kernel's length, and NVIDIA's (580.159) fails where it reads 300.
constexpr std::uint32_t kMostUnknowns = 256;
}  // namespace

DeviceTerm::DeviceTerm(Context& context, const Term& term, const Model& model)
    : context_(context),
      model_(model),
      batch_(term.batch),
      rows_(static_cast<std::uint32_t>(term.topology->program.outputs.size())),
      slots_(term.topology->program.leaves.parameters) {
  if (slots_ > kMostUnknowns) refuse_width(term);
  const auto start = std::chrono::steady_clock::now();
  view_ = {.shape = shape_of(term, model.arrays), .batch = term.batch};
  view_.shape.flexible =
      context_.flexible_columns
          ? flexible_since_met(*view_.shape.topology, view_.shape.groups, view_.shape.flexible)
          : FlexibleColumns{};
  lay_out(view_.shape);
  forms_ = find_forms(*batch_, view_.shape.layout);
  view_.forms = &forms_;
  view_.numbers = &numbers_;
  make_chunks();
  if (is_wide() && !terms_fit()) refuse_terms();
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Drivers' compilers take minutes for such kernels.
void DeviceTerm::refuse_width(const Term& term) const {
  throw Error(ErrorCode::Unsupported,
              "vulkan: expected residuals that read at most " + std::to_string(kMostUnknowns) +
                  " unknowns, got one that reads " + std::to_string(slots_) + ", \"" + term.name +
                  "\": split it into several residuals, or solve on backend cpu");
}

/// Its terms are stored, which needs one range.
void DeviceTerm::refuse_terms() const {
  throw Error(ErrorCode::Unsupported,
              "vulkan: kernel \"" + view_.shape.name + "\" has " + std::to_string(batch_->size()) +
                  " residuals that read " + std::to_string(slots_) +
                  " unknowns each, whose terms need a storage buffer range of " +
                  std::to_string(batch_->size() * slots_ * context_.element_bytes()) +
                  " bytes, the device has " + std::to_string(context_.max_range()) +
                  ": solve on backend cpu");
}

void DeviceTerm::make_chunks() {
  const codegen::ColumnLayout& layout = view_.shape.layout;
  const std::uint64_t bytes = std::max<std::uint64_t>(
      {4ull * layout.index_columns, std::uint64_t{context_.element_bytes()} * layout.data_columns,
       std::uint64_t{context_.element_bytes()} * rows_ * slots_, 4ull});
  const std::uint64_t shared = bytes;  // numbers that all rows share
  std::uint64_t most = (context_.max_range() - std::min(context_.max_range(), shared)) / bytes;
  if (most < batch_->size()) most = most / kChunkAlignment * kChunkAlignment;
  if (most == 0) {
    throw Error(ErrorCode::Unsupported, "kernel \"" + view_.shape.name +
                                            "\": expected a storage buffer range of at least " +
                                            std::to_string(bytes * kChunkAlignment) +
                                            " bytes, got " + std::to_string(context_.max_range()));
  }
  for (std::uint64_t first = 0; first < batch_->size(); first += most) {
    Chunk chunk;
    chunk.first = static_cast<std::uint32_t>(first);
    chunk.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, batch_->size() - first));
    upload_index(chunk);
    upload_data(chunk);
    chunks_.push_back(std::move(chunk));
  }
}

void DeviceTerm::upload_index(Chunk& chunk) {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  std::vector<std::uint32_t> index(forms_.stored_index() * std::size_t{chunk.count});
  std::vector<std::uint32_t> shared;
  chunk.words.index = form_words(forms_.index, chunk.count);
  for (std::size_t c = 0, at = 0; c < forms_.index.size(); ++c) {
    const IndexForm& form = forms_.index[c];
    chunk.words.step.push_back(form.stored ? 0 : form.step);
    if (form.stored) {
      batch_->copy_index_column(stored.index[c], chunk.first,
                                std::span(index).subspan(at, chunk.count));
      at += chunk.count;
    } else {
      shared.push_back(form.base + form.step * chunk.first);
    }
  }
  index.insert(index.end(), shared.begin(), shared.end());
  chunk.index = make_buffer(context_, index, view_.shape.name + "_index");
}

void DeviceTerm::upload_data(Chunk& chunk, bool own) {
  const StoredColumns stored = stored_columns(view_.shape.layout);
  std::vector<double> data(forms_.stored_data() * std::size_t{chunk.count}), shared;
  for (std::size_t c = 0, at = 0; c < forms_.data.size(); ++c) {
    if (forms_.data[c].stored) {
      const bool there = chunk.remote.add(context_, *batch_, stored.data[c], at, chunk.count);
      if (!there && (own || batch_->remote(stored.data[c]))) {
        const auto column = std::span(data).subspan(at, chunk.count);
        batch_->copy_data_column(stored.data[c], chunk.first, column);
        if (!own) write_numbers(context_, chunk.data, column, at);
      }
      at += chunk.count;
    } else {
      shared.push_back(forms_.data[c].value);
    }
  }
  data.insert(data.end(), shared.begin(), shared.end());
  if (!chunk.data) {
    chunk.words.data = form_words(forms_.data, chunk.count);
    chunk.data = make_numbers(context_, data.size(), view_.shape.name + "_data");
  }
  const auto write = [&](std::uint64_t first, std::uint64_t count) {
    write_numbers(context_, chunk.data, std::span(data).subspan(first, count), first);
  };
  if (own) chunk.remote.each_other(data.size(), write);
  chunk.remote.take(context_, *batch_, chunk.data, {}, chunk.first);
}

void DeviceTerm::bind_columns(BindingTable& table, const Chunk& chunk) const {
  table.set(BufferRole::index_columns, chunk.index);
  table.set(BufferRole::data_columns, chunk.data);
  table.set(chunk.words);
}

bool DeviceTerm::refresh_data(bool own) {
  const bool moved = own && refresh_data_forms(*batch_, view_.shape.layout, forms_);
  for (Chunk& chunk : chunks_) {
    if (moved) chunk.data = Buffer();
    upload_data(chunk, own);
  }
  for (auto& set : gather_sets_) set->refresh_data(moved, own);
  for (auto& set : masked_sets_) set->refresh_data(moved, own);
  return moved;
}

std::uint32_t DeviceTerm::width(Pass pass) const {
  switch (pass) {
    case Pass::residual:
    case Pass::jvp: return rows_;
    case Pass::cost:
    case Pass::guards: return 1;
    case Pass::jacobian: return rows_ * slots_;
    case Pass::stored_jacobian:
      return rows_ * static_cast<std::uint32_t>(slots_of(shape(), pass).size());
    case Pass::vjp: return slots_;
    case Pass::hessian: return slots_ * (slots_ + 1) / 2;
    default: return static_cast<std::uint32_t>(slots_of(shape(), pass).size());
  }
}

std::uint64_t DeviceTerm::stored_size(Pass pass) const { return batch_->size() * width(pass); }

void DeviceTerm::need_store(Needs& needs, Pass pass, bool predicated) {
  // The data columns of stored_jtjp are others.
  const bool own_data = pass != Pass::stored_jtjp;
  needs.add(declare_kernel(context_, store_kernels_[{pass, predicated, masked_}],
                           own_data ? numbers_ : SharedNumbers{}, [&] {
                             codegen::KernelRequest made = store_request(shape(), pass);
                             made.predicated = predicated;
                             return made;
                           }));
}

void DeviceTerm::need_scatter(Needs& needs, Pass pass, bool predicated) {
  needs.add(declare_kernel(context_, scatter_kernels_[{pass, predicated, masked_}], numbers_, [&] {
    codegen::KernelRequest made = scatter_request(shape(), pass, context_.rung.accumulation);
    made.predicated = predicated;
    return made;
  }));
}

void DeviceTerm::need_cost(Needs& needs) {
  needs.add(declare_kernel(context_, cost_kernel_, numbers_, [&] {
    codegen::KernelRequest made = cost_request(view_.shape);
    made.wide_sums = context_.device->features().float64;
    return made;
  }));
}

/// What a pass with values needs of a chunk besides.
void DeviceTerm::bind_rows(BindingTable& table, const Chunk& chunk, const ValueSinks* sinks,
                           codegen::PushConstants& push) const {
  if (sinks == nullptr) return;
  bind_sinks(table, *sinks);
  push.costs_first() = sinks->next;
  push.rows_stride() = chunk.count;
  if (sinks->rows == nullptr) return;
  const std::uint64_t row_bytes = std::uint64_t{context_.element_bytes()} * rows_;
  table.set(BufferRole::rows, *sinks->rows, chunk.first * row_bytes, chunk.count * row_bytes);
}

void DeviceTerm::record_store(CommandList& list, Pass pass, const Operands& operands,
                              const Buffer& out, ValueSinks* sinks) {
  const LoadedKernel& kernel = serving(store_kernels_, pass, operands);
  BindingTable bindings = bind_operands(operands);
  const std::uint64_t bytes = context_.element_bytes();
  for (const Chunk& chunk : chunks_) {
    bind_columns(bindings, chunk);
    const std::uint64_t offset = chunk.first * bytes;
    bindings.set(BufferRole::out, out, offset * width(pass), chunk.count * bytes * width(pass));
    if (operands.seeds != nullptr) {
      bindings.set(BufferRole::seeds, *operands.seeds, offset * rows_, chunk.count * bytes * rows_);
    }
    codegen::PushConstants push{.stride = chunk.count, .out_stride = chunk.count};
    bind_rows(bindings, chunk, sinks, push);
    const std::uint64_t before = list.dispatches();
    const std::uint32_t next = dispatch_all(context_, list, kernel, bindings, push, chunk.count);
    if (sinks != nullptr) sinks->next = next;
    context_.term_dispatches += list.dispatches() - before;
  }
}

std::uint32_t DeviceTerm::chunk_end(std::uint32_t first) const {
  for (const Chunk& chunk : chunks_) {
    if (first < chunk.first + chunk.count) return chunk.first + chunk.count;
  }
  return first;
}

void DeviceTerm::record_hessians(CommandList& list, const Operands& operands, std::uint32_t first,
                                 std::uint32_t count, const Buffer& out) {
  const LoadedKernel& kernel = serving(store_kernels_, Pass::hessian, operands);
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::out, out);
  for (const Chunk& chunk : chunks_) {
    if (first < chunk.first || first >= chunk.first + chunk.count) continue;
    bind_columns(bindings, chunk);
    const std::uint32_t skipped = first - chunk.first;
    // Results begin at 0: the kernel adds the instance's place in the chunk, modulo 2^32.
    context_.term_dispatches += dispatch_range(
        context_, list, kernel, bindings,
        {.stride = chunk.count, .out_stride = count, .out_first = 0u - skipped}, skipped, count);
  }
}

void DeviceTerm::record_stored_jtjp(CommandList& list, const Buffer& jacobian,
                                    const Operands& operands, const Buffer& out) {
  const LoadedKernel& kernel = serving(store_kernels_, Pass::stored_jtjp, operands);
  BindingTable bindings = bind_operands(operands);
  const std::uint64_t bytes = context_.element_bytes();
  const std::uint64_t entries = width(Pass::stored_jacobian), terms = width(Pass::stored_jtjp);
  for (const Chunk& chunk : chunks_) {
    const std::uint64_t offset = chunk.first * bytes, size = chunk.count * bytes;
    bind_columns(bindings, chunk);
    bindings.set(BufferRole::data_columns, jacobian, offset * entries, size * entries);
    bindings.set(BufferRole::out, out, offset * terms, size * terms);
    dispatch_all(context_, list, kernel, bindings,
                 {.stride = chunk.count, .out_stride = chunk.count}, chunk.count);
  }
}

void DeviceTerm::record_scatter(CommandList& list, Pass pass, const Operands& operands,
                                const Buffer& out, ValueSinks* sinks) {
  const LoadedKernel& kernel = serving(scatter_kernels_, pass, operands);
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::out, out);
  const std::uint64_t bytes = context_.element_bytes();
  for (const Chunk& chunk : chunks_) {
    bind_columns(bindings, chunk);
    if (operands.seeds != nullptr) {
      bindings.set(BufferRole::seeds, *operands.seeds, chunk.first * bytes * rows_,
                   chunk.count * bytes * rows_);
    }
    codegen::PushConstants push{.stride = chunk.count, .out_stride = chunk.count};
    bind_rows(bindings, chunk, sinks, push);
    const std::uint64_t before = list.dispatches();
    const std::uint32_t next = dispatch_all(context_, list, kernel, bindings, push, chunk.count);
    if (sinks != nullptr) sinks->next = next;
    context_.term_dispatches += list.dispatches() - before;
  }
}

std::uint32_t DeviceTerm::cost_partials() const {
  // Each dispatch rounds its instances up to whole workgroups.
  std::uint64_t partials = 0;
  for (const Chunk& chunk : chunks_) {
    const std::uint64_t dispatches = chunk.count / context_.max_invocations() + 1;
    partials += chunk.count / context_.workgroup_size + 1 + dispatches;
    if (context_.max_invocations() < context_.workgroup_size) partials += dispatches;
  }
  return static_cast<std::uint32_t>(partials);
}

std::uint32_t DeviceTerm::record_cost(CommandList& list, const Operands& operands,
                                      const Buffer& partials, std::uint32_t first) {
  const LoadedKernel& kernel = serving_kernel(context_, cost_kernel_);
  BindingTable bindings = bind_operands(operands);
  bindings.set(BufferRole::out, partials);
  std::uint32_t next = first;
  for (const Chunk& chunk : chunks_) {
    bind_columns(bindings, chunk);
    const std::uint64_t before = list.dispatches();
    next = dispatch_all(context_, list, kernel, bindings,
                        {.stride = chunk.count, .out_first = next}, chunk.count);
    context_.term_dispatches += list.dispatches() - before;
  }
  return next - first;
}

std::vector<std::unique_ptr<GatherSet>>& DeviceTerm::gather_sets() {
  auto& sets = masked_ ? masked_sets_ : gather_sets_;
  if (std::exchange(masked_ ? masked_planned_ : planned_, true)) return sets;
  const auto start = std::chrono::steady_clock::now();
  const auto constant = masked_ ? constant_ : std::span<const std::uint8_t>();
  std::vector<GatherPlan> plans =
      is_wide() ? invert_terms(*batch_, slots_of(shape(), Pass::gradient), model_.scalars, constant)
                : invert(*batch_, shape().groups, model_.arrays, model_.scalars, constant);
  for (GatherPlan& plan : plans) {
    sets.push_back(std::make_unique<GatherSet>(context_, view(), std::move(plan)));
  }
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return sets;
}

GatherSet* DeviceTerm::value_set(Pass pass) {
  if (pass == Pass::values && chunks_.size() > 1) return nullptr;  // rows lie by chunk
  for (auto& set : gather_sets()) {
    if (set->lead()) return set.get();
  }
  return nullptr;
}

std::uint64_t DeviceTerm::most_costs() {
  std::uint64_t most = cost_partials();
  for (auto& set : gather_sets()) most = std::max(most, set->most_costs());
  return most;
}

DeviceTerm::JacobianColumns DeviceTerm::jacobian_columns() const {
  const std::vector<std::uint32_t> stored = slots_of(shape(), Pass::stored_jacobian);
  JacobianColumns out{.count = static_cast<std::uint32_t>(stored.size())};
  for (const SlotGroup& group : shape().groups) {
    out.by_group.resize(out.by_group.size() + codegen::kMaxBlockWidth, JacobianColumns::kNone);
    std::uint32_t* const columns = &out.by_group.back() + 1 - codegen::kMaxBlockWidth;
    for (std::size_t k = 0; k < group.slots.size(); ++k) {
      const auto at = std::ranges::lower_bound(stored, group.slots[k]);
      if (at != stored.end() && *at == group.slots[k])
        columns[group.coordinates[k]] = static_cast<std::uint32_t>(at - stored.begin());
    }
  }
  return out;
}

bool DeviceTerm::jacobian_fits() const {
  return terms_fit() &&
         stored_size(Pass::stored_jacobian) * context_.element_bytes() <= context_.max_range();
}

bool DeviceTerm::terms_fit() const {
  return chunks_.size() == 1 &&
         batch_->size() * slots_ * context_.element_bytes() <= context_.max_range();
}

std::uint32_t DeviceTerm::store_stride() const { return chunks_.front().count; }

std::uint64_t DeviceTerm::cost_of(Pass pass) const {
  const ir::Program program = shape_program(shape(), pass, slots_of(shape(), pass));
  std::uint64_t cost = 0;
  for (const ir::Node& node : program.nodes) {
    if (ir::is_leaf(node.op)) continue;
    cost += ir::info(node.op).function.empty() ? 1 : kFunctionCost;
  }
  return cost;
}

void DeviceTerm::to_device_order(std::span<const double> by_instance, std::span<double> stored,
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

void DeviceTerm::from_device_order(std::span<const double> stored, std::span<double> by_instance,
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
