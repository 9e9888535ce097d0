// Sizes and offsets of vectors and blocks, recording of vector kernels, and traffic of scalars.
#include "vector_ops.hpp"

#include "../../../codegen/vector/source.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::GroupCount;

VectorOps::VectorOps(Context& context, bool masked) : context_(context), masked_(masked) {
  const bool wide = context.scalar_precision() == Precision::f64;
  scalars_ =
      context.device->buffer(codegen::kScalarCount * (wide ? 8 : 4), MemoryKind::Device, "scalars");
  const auto initial = codegen::initial_scalars();
  if (wide) {
    context.device->upload<double>(scalars_, initial);
  } else {
    const std::vector<float> narrow(initial.begin(), initial.end());
    context.device->upload<float>(scalars_, narrow);
  }
}

void VectorOps::write(std::span<const std::pair<Scalar, double>> values) {
  for (std::size_t first = 0, next = 1; first < values.size(); first = next++) {
    const std::uint32_t at = codegen::slot(values[first].first);
    std::vector<double> run = {values[first].second};
    while (next < values.size() && codegen::slot(values[next].first) == at + run.size())
      run.push_back(values[next++].second);
    if (context_.scalar_precision() == Precision::f64) {
      context_.device->upload<double>(scalars_, run, at * 8);
    } else {
      const std::vector<float> narrow(run.begin(), run.end());
      context_.device->upload<float>(scalars_, narrow, at * 4);
    }
  }
}

const std::array<double, codegen::kScalarCount>& VectorOps::read(const Submission& last) {
  const bool wide = context_.scalar_precision() == Precision::f64;
  readback_.read(context_, last, scalars_, wide, values_);
  return values_;
}

Buffer make_partials(const Context& context, std::uint64_t count) {
  const std::uint64_t bytes = context.scalar_precision() == Precision::f64 ? 8 : 4;
  return context.device->buffer(std::max<std::uint64_t>(count, 1) * bytes, MemoryKind::Device,
                                "partials");
}

Buffer make_chunk_ends(Context& context, std::span<const Chunk> chunks) {
  std::vector<std::uint32_t> ends;
  for (const Chunk& chunk : chunks)
    for (const std::uint64_t end : {chunk.first, chunk.end})
      ends.push_back(static_cast<std::uint32_t>(end));
  return make_buffer(context, ends, "chunks");
}

LoadedKernel VectorOps::load(Op op, const Variant& variant) {
  return load_kernel(context_,
                     codegen::VectorKernelRequest{.op = op,
                                                  .width = variant.width,
                                                  .predicated = variant.predicated,
                                                  .unpreconditioned = variant.unpreconditioned,
                                                  .decides = variant.decides,
                                                  .step_time = variant.step_time});
}

std::uint32_t VectorOps::record(CommandList& list, Op op, const Variant& variant,
                                std::uint32_t count, std::span<const kernel::Part> parts,
                                std::span<const std::uint32_t> push) {
  const codegen::KernelRow& row = codegen::row(op);
  const std::uint32_t groups = variant.groups > 0              ? variant.groups
                               : row.groups == GroupCount::one ? 1
                               : row.groups == GroupCount::few ? context_.update_grid(count)
                                                               : workgroups(count);
  auto kernel = kernels_.find(key(op, variant));
  if (DeclaredKernels* const declared = list.declared()) {
    if (kernel == kernels_.end())
      kernel = kernels_.emplace(key(op, variant), load(op, variant)).first;
    declared->add(kernel->second);
    return groups;
  }
  if (kernel == kernels_.end()) {
    throw Error(ErrorCode::Internal, "vector kernel \"" + std::string(row.name) + "\" of width " +
                                         std::to_string(variant.width) +
                                         " is recorded, but was not declared");
  }
  BindingTable table;
  table.set(BufferRole::scalars, variant.scalars != nullptr ? *variant.scalars : scalars_);
  auto part = parts.begin();
  for (const codegen::BufferRow& buffer : row.buffers) {
    if (buffer.role == BufferRole::scalars) continue;
    const kernel::Part& one = *part++;
    if (one.buffer != nullptr) table.set(buffer.role, *one.buffer, one.offset, one.size);
  }
  table.set({.numbers = std::uint64_t{count} * variant.width,
             .packed_numbers = std::uint64_t{count} * variant.width * (variant.width + 1) / 2});
  dispatch(context_, list, kernel->second, table, std::as_bytes(push), groups);
  return groups;
}

void VectorOps::sum(CommandList& list, const Buffer& partials, std::uint32_t start,
                    std::uint32_t count, std::uint32_t stride, Scalar first, std::uint32_t sums,
                    bool maximum) {
  if (maximum) {
    record(list,
           kernel::max_partials{{.partials = partials},
                                {.count = count, .first = start, .stride = stride, .place = first}},
           {.groups = sums});
  } else {
    record(list,
           kernel::sum_partials{{.partials = partials},
                                {.count = count, .first = start, .stride = stride, .place = first}},
           {.groups = sums});
  }
}

void VectorOps::sum_into(CommandList& list, const Buffer& numbers, const Buffer& partials,
                         std::uint32_t count, std::uint32_t sums) {
  record(list,
         kernel::sum_partials{{.partials = partials},
                              {.count = count, .stride = count, .place = Scalar{0}}},
         {.groups = sums, .scalars = &numbers});
}

namespace {

constexpr std::uint64_t kLargestCopy = std::uint64_t{64} << 20;

template <class T>
void widen(const std::byte* bytes, std::span<double> values) {
  if constexpr (std::is_same_v<T, double>) {
    std::memcpy(values.data(), bytes, values.size_bytes());
  } else {
    const auto* narrow = reinterpret_cast<const T*>(bytes);
    std::copy(narrow, narrow + values.size(), values.begin());
  }
}

}  // namespace

void Readback::record(Context& context, CommandList& list, const Buffer& source, bool own) {
  if (list.declared() != nullptr) return;
  if (!own && (source.readable() || source.size() > kLargestCopy)) return;
  if (!host_ || host_.size() < source.size()) {
    host_ = context.device->buffer(source.size(), MemoryKind::Readback, "readback");
  }
  list.copy(source, 0, host_, 0, source.size());
}

void Readback::read(Context& context, const Submission& last, const Buffer& source, bool wide,
                    std::span<double> values) const {
  if (host_) {
    last.wait();
    return wide ? widen<double>(host_.mapped(), values) : widen<float>(host_.mapped(), values);
  }
  if (wide) return context.device->download<double>(source, values);
  std::vector<float> narrow(values.size());
  context.device->download<float>(source, narrow);
  std::copy(narrow.begin(), narrow.end(), values.begin());
}

namespace {

/// Pieces of diagonal blocks begin at multiples of so many numbers, where buffers can be bound.
constexpr std::uint64_t kBlockAlignment = 256;

}  // namespace

StepVectors::StepVectors(Context& context, const Model& model, std::uint32_t correction_sums,
                         bool diagonal_alone)
    : most_sums(correction_sums), context_(&context) {
  const bool masked = std::any_of(model.constant.begin(), model.constant.end(),
                                  [](std::uint8_t c) { return c != 0; });
  const bool has_bounds_or_manifolds = !model.lower.empty() || model.manifolds != nullptr;
  ops = std::make_unique<VectorOps>(context, masked || has_bounds_or_manifolds);
  lay_out_blocks(model, diagonal_alone);
  const std::uint64_t n = model.scalars;
  const std::uint64_t needed = n * context.element_bytes();
  if (needed > context.max_range()) {
    throw Error(ErrorCode::Unsupported, "vulkan: " + std::to_string(n) +
                                            " unknowns need a storage buffer range of " +
                                            std::to_string(needed) + " bytes, the device has " +
                                            std::to_string(context.max_range()));
  }
  const auto vector = [&](std::string_view name) { return make_numbers(context, n, name); };
  x = vector("x");
  trial = vector("trial");
  gradient = vector("gradient");
  direction = vector("direction");
  next_direction = vector("next_direction");
  result = vector("result");
  step = vector("step");
  residual = vector("residual");
  product = vector("product");
  preconditioned = vector("preconditioned");
  scale = vector("scale");
  damping = vector("damping");
  packed = make_numbers(context, packed_blocks, "blocks");
  inverse = make_numbers(context, packed_blocks, "inverse");
  std::vector<std::uint32_t> words(model.constant.begin(), model.constant.end());
  if (has_bounds_or_manifolds) words.resize(n, 0);
  fixed = make_buffer(context, words, "fixed");
  partials =
      make_partials(context, 4ull * (block_groups() + ops->workgroups(n)) + 2ull * most_sums);
  decision = make_partials(context, codegen::kScalarCount);
}

void StepVectors::lay_out_blocks(const Model& model, bool diagonal_alone) {
  diagonal_positions.assign(model.scalars, 0);
  for (const ParameterArray& array : model.arrays) {
    const bool cut = diagonal_alone || array.width > codegen::kMaxBlockWidth;
    const std::uint32_t width = cut ? 1 : array.width;
    const std::uint64_t count = array.blocks * array.width / width;
    const std::uint32_t numbers = width * (width + 1) / 2;
    array_blocks.push_back({static_cast<std::uint32_t>(array.offset),
                            static_cast<std::uint32_t>(packed_blocks),
                            static_cast<std::uint32_t>(count), width});
    const std::uint64_t fit = context_->max_range() / (numbers * context_->element_bytes());
    const std::uint64_t piece = std::max<std::uint64_t>(fit / kBlockAlignment, 1) * kBlockAlignment;
    for (std::uint64_t first = 0; first < count; first += piece) {
      blocks.push_back({static_cast<std::uint32_t>(array.offset + first * width),
                        static_cast<std::uint32_t>(packed_blocks + first * numbers),
                        static_cast<std::uint32_t>(std::min(piece, count - first)), width});
    }
    ir::parallel_pieces(count, 1 << 14, [&](std::size_t begin, std::size_t end) {
      for (std::size_t block = begin; block < end; ++block) {
        for (std::uint64_t i = 0; i < width; ++i)
          diagonal_positions[array.offset + block * width + i] = static_cast<std::uint32_t>(
              packed_blocks + block * numbers + i * width - i * (i + 1) / 2 + i);
      }
    });
    packed_blocks += count * numbers;
    packed_blocks = (packed_blocks + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
}

std::vector<DiagonalBlocks> StepVectors::diagonal_blocks() const {
  std::vector<DiagonalBlocks> out;
  for (const BlockRange& range : blocks) {
    const std::uint64_t first = range.blocks_first * context_->element_bytes();
    const std::uint64_t size =
        context_->element_bytes() * range.count * range.width * (range.width + 1) / 2;
    out.push_back({.count = range.count,
                   .width = range.width,
                   .first = range.x_first,
                   .packed = {packed, first, size},
                   .inverse = {inverse, first, size}});
  }
  return out;
}

std::uint32_t StepVectors::block_groups() const {
  std::uint32_t groups = 0;
  for (const BlockRange& range : blocks) groups += context_->update_grid(range.count);
  return groups;
}

}  // namespace topograd::runtime::vulkan
