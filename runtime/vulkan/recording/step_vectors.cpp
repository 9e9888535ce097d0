// Sizes and offsets of vectors and diagonal blocks.
#include "step_vectors.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace topograd::runtime::vulkan {
namespace {

/// Pieces of diagonal blocks begin at multiples of so many numbers, where buffers can be bound.
constexpr std::uint64_t kBlockAlignment = 256;

}  // namespace

StepVectors::StepVectors(Context& context, const Model& model, std::uint32_t correction_sums)
    : most_sums(correction_sums), context_(&context) {
  const bool masked = std::any_of(model.constant.begin(), model.constant.end(),
                                  [](std::uint8_t c) { return c != 0; });
  const bool has_bounds_or_manifolds = !model.lower.empty() || model.manifolds != nullptr;
  ops = std::make_unique<VectorOps>(context, masked || has_bounds_or_manifolds);
  lay_out_blocks(model);
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

void StepVectors::lay_out_blocks(const Model& model) {
  diagonal_positions.assign(model.scalars, 0);
  for (const ParameterArray& array : model.arrays) {
    const std::uint32_t width = array.width > codegen::kMaxBlockWidth ? 1 : array.width;
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
    const tbb::blocked_range<std::size_t> all(0, count, 1 << 14);
    ir::parallel_for(all, [&](const auto& range) {
      for (std::size_t block = range.begin(); block < range.end(); ++block) {
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
