// Buffers of a Schur complement, and its products.
#include "reduced_system.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace topograd::runtime::vulkan {

std::uint32_t lanes_of_rows(const Context& context, std::uint64_t entries, std::uint64_t rows) {
  constexpr std::uint64_t kEntriesOfLane = 8;  // that an invocation adds up, about
  if (context.device->info().software() || rows == 0) return 1;
  const std::uint64_t wanted = std::bit_ceil(entries / rows / kEntriesOfLane + 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, context.workgroup_size));
}

void record_inverses(CommandList& list, VectorOps& vectors,
                     std::span<const SchurPlan::Blocks> widths,
                     const kernel::schur_invert::Buffers& with) {
  for (const SchurPlan::Blocks& range : widths) {
    const kernel::schur_invert::Push part = {
        .count = range.count, .first = range.first, .inverse_first = range.inverse};
    vectors.record(list, kernel::schur_invert{with, part}, {.width = range.width});
  }
}

namespace {

/// By kept position: its values, columns, length, kept block and coordinate.
std::vector<std::uint32_t> scalar_rows(const SchurPlan& plan) {
  std::vector<std::uint32_t> words;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t k = range.first; k < range.first + range.count; ++k) {
      const BlockRows::Row row = plan.complement.row(k);
      for (std::uint32_t a = 0; a < range.width; ++a)
        words.insert(words.end(), {row.values + a * row.length, row.columns, row.length, k, a});
    }
  }
  return words;
}

}  // namespace

ReducedSystem::ReducedSystem(Context& context, VectorOps& vectors, const SchurPlan& plan)
    : context_(context), vectors_(vectors), plan_(plan) {
  const std::uint32_t n = plan.unknowns();
  lanes_ = lanes_of_rows(context, plan.complement.values(), n);
  const auto words = [&](std::span<const std::uint32_t> list) {
    return make_buffer(context, list, "schur_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "schur_numbers");
  };
  std::vector<std::uint32_t> places;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t b = 0; b < range.count; ++b)
      places.insert(places.end(), {range.position + b * range.width,
                                   range.inverse + b * range.width * (range.width + 1) / 2});
  }
  places_ = words(places);
  rows_ = words(scalar_rows(plan));
  columns_ = words(plan.complement.columns());
  input_ = {numbers(plan.complement.values()), numbers(plan.packed), numbers(n)};
  inverse_blocks_ = numbers(plan.packed);
  no_damping_ = make_buffer(context, std::vector<double>(n), "schur_numbers");
  none_fixed_ = words(std::vector<std::uint32_t>(n));
  for (Buffer* vector : {&v_.step, &v_.residual, &v_.product, &v_.preconditioned, &v_.directions[0],
                         &v_.directions[1]}) {
    *vector = numbers(n);
  }
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    blocks_.push_back({.count = range.count,
                       .width = range.width,
                       .first = range.position,
                       .packed = input_.packed_blocks,
                       .inverse = inverse_blocks_,
                       .inverse_first = range.inverse});
    block_groups_ += context.update_grid(range.count);
  }
  v_.partials = make_partials(context, 2ull * block_groups_);
  v_.curvature = make_partials(context, row_groups());
  v_.decision = make_partials(context, codegen::kScalarCount);
}

std::uint32_t ReducedSystem::row_groups() const {
  return context_.product_grid(std::uint64_t{plan_.unknowns()} * lanes_);
}

SystemVectors ReducedSystem::vectors() {
  return {.gradient = input_.gradient,
          .step = v_.step,
          .residual = v_.residual,
          .product = v_.product,
          .preconditioned = v_.preconditioned,
          .directions = {&v_.directions[0], &v_.directions[1]},
          .fixed = none_fixed_,
          .partials = v_.partials,
          .curvature = v_.curvature,
          .decision = v_.decision,
          .blocks = blocks_,
          .unknowns = plan_.unknowns(),
          .block_groups = block_groups_};
}

void ReducedSystem::record_begin(CommandList& list) {
  record_inverses(list, vectors_, plan_.kept_widths,
                  {.blocks = input_.packed_blocks,
                   .damping = no_damping_,
                   .inverse_blocks = inverse_blocks_,
                   .places = places_,
                   .fixed_scalars = none_fixed_});
}

std::uint32_t ReducedSystem::record_product(CommandList& list, const Direction& direction) {
  return vectors_.record(
      list,
      kernel::schur_product{
          {.complement = input_.complement,
           .preconditioned = direction.preconditioned,
           .direction = direction.before,
           .next_direction = direction.now,
           .product = v_.product,
           .row_words = rows_,
           .column_numbers = columns_,
           .partials = v_.partials,
           .curvature = v_.curvature,
           .decision = v_.decision},
          {.count = plan_.unknowns(), .sums_count = direction.sums, .sums_stride = direction.sums}},
      {.width = lanes_, .groups = row_groups()});
}

}  // namespace topograd::runtime::vulkan
