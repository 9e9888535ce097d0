// Recording JᵀJ by rows of blocks.
#include "device_matrix.hpp"

#include <algorithm>
#include <bit>

namespace topograd::runtime::vulkan {
namespace {

/// Numbers of a scalar row that an invocation adds up, about.
constexpr std::uint64_t kNumbersOfLane = 6;

}  // namespace

std::uint64_t DeviceMatrix::bytes(const Context& context, const NormalPlan& plan) {
  return plan.matrix.bytes(context.element_bytes());
}

Why<MatrixReason> DeviceMatrix::obstacle(const Context& context, const NormalPlan& plan,
                                         Terms terms) {
  std::uint64_t words =
      std::max<std::uint64_t>(plan.matrix.columns().size(), plan.matrix.words().size());
  for (const BlockProducts& products : plan.products) {
    if (!jacobian_fits(context, *terms[products.term]))
      return {MatrixReason::jacobian_out_of_range};
    words = std::max<std::uint64_t>({words, products.outputs.size(), products.entries.size()});
  }
  if (plan.matrix.values() * context.element_bytes() > context.max_range() ||
      words * 4 > context.max_range())
    return {MatrixReason::out_of_range};
  return {};
}

DeviceMatrix::DeviceMatrix(Context& context, const NormalPlan& plan, Terms terms,
                           std::span<const BlockRange> ranges)
    : context_(context) {
  std::uint32_t block = 0;
  for (const BlockRange& range : ranges) {
    if (range.count == 0) continue;
    ranges_.push_back(range);
    first_rows_.push_back(block);
    block += range.count;
  }
  const std::uint64_t per_row = plan.matrix.columns().size() / std::max<std::uint64_t>(block, 1);
  if (!context.device->info().software()) {
    lanes_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        std::bit_ceil(per_row / kNumbersOfLane + 1), context.workgroup_size));
  }
  const auto words = [&](std::span<const std::uint32_t> list) {
    return make_buffer(context, list, "matrix_words");
  };
  rows_ = words(plan.matrix.words());
  columns_ = words(plan.matrix.columns());
  values_ = make_numbers(context, plan.matrix.values(), "matrix_values");
  for (const BlockProducts& products : plan.products)
    products_.emplace_back(context, products, *terms[products.term], "matrix_words");
  use_ = {.assembled = true, .blocks = plan.blocks, .bytes = bytes(context, plan)};
}

void DeviceMatrix::record_values(CommandList& list, VectorOps& vectors,
                                 std::span<const Buffer> jacobians, const Buffer& packed) {
  const bool several = products_.size() > 1;
  if (several) {
    list.fill(values_, 0, values_.size(), 0);
    list.barrier();
  }
  for (const DeviceProducts& products : products_) {
    if (several && &products != &products_.front()) list.barrier();
    products.record(list, vectors,
                    kernel::matrix_blocks{{.jacobian = jacobians[products.term], .matrix = values_},
                                          {.overwrite = several ? 0u : 1u}});
  }
  if (several) list.barrier();
  for (std::size_t k = 0; k < ranges_.size(); ++k) {
    const BlockRange& range = ranges_[k];
    const std::uint64_t number = context_.element_bytes();
    const kernel::Part blocks(packed, range.blocks_first * number,
                              number * range.count * range.width * (range.width + 1) / 2);
    vectors.record(list,
                   kernel::matrix_diagonal{
                       {.blocks = blocks, .matrix = values_, .row_words = rows_},
                       {.count = range.count * range.width * range.width, .first = first_rows_[k]}},
                   {.width = range.width});
  }
}

std::uint32_t DeviceMatrix::groups_of(const BlockRange& range) const {
  return context_.product_grid(std::uint64_t{range.count} * lanes_);
}

std::uint32_t DeviceMatrix::groups() const {
  std::uint32_t sum = 0;
  for (const BlockRange& range : ranges_) sum += groups_of(range);
  return sum;
}

template <class Kernel>
std::uint32_t DeviceMatrix::record_rows(CommandList& list, VectorOps& vectors, Kernel kernel) {
  kernel.buffers.matrix = values_;
  kernel.buffers.row_words = rows_;
  kernel.buffers.column_numbers = columns_;
  kernel.push.lanes = lanes_;
  std::uint32_t groups = 0;
  for (std::size_t k = 0; k < ranges_.size(); ++k) {
    const BlockRange& range = ranges_[k];
    kernel.push.count = range.count;
    kernel.push.first = first_rows_[k];
    kernel.push.product_first = range.x_first;
    if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
    groups += vectors.record(list, kernel, {.width = range.width, .groups = groups_of(range)});
  }
  return groups;
}

void DeviceMatrix::record_multiply(CommandList& list, VectorOps& vectors, const Buffer& direction,
                                   const Buffer& product) {
  record_rows(list, vectors,
              kernel::matrix_multiply{{.direction = direction, .product = product}, {}});
}

void DeviceMatrix::record_residual(CommandList& list, VectorOps& vectors,
                                   const kernel::matrix_residual::Buffers& with) {
  record_rows(list, vectors, kernel::matrix_residual{with, {}});
}

std::uint32_t DeviceMatrix::record_product(CommandList& list, VectorOps& vectors,
                                           const kernel::matrix_product::Buffers& with) {
  return record_rows(list, vectors, kernel::matrix_product{with, {}});
}

JacobianColumns jacobian_columns(const TermShape& shape) {
  const std::vector<std::uint32_t> stored = slots_of(shape, Pass::stored_jacobian);
  JacobianColumns out{.count = static_cast<std::uint32_t>(stored.size())};
  for (const SlotGroup& group : shape.groups) {
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

bool jacobian_fits(const Context& context, const DeviceTerm& term) {
  return term.terms_fit() &&
         term.stored_size(Pass::stored_jacobian) * context.element_bytes() <= context.max_range();
}

}  // namespace topograd::runtime::vulkan
