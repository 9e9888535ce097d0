// Binding of operands and of what is written.
#include "operands.hpp"

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Numbers of a buffer are bound from multiples of this on.
constexpr std::uint64_t kOutAlignment = 64;

}  // namespace

BindingTable bind_operands(const Operands& operands) {
  BindingTable made;
  const auto set = [&](BufferRole role, const Buffer* buffer) {
    if (buffer != nullptr) made.set(role, *buffer);
  };
  set(BufferRole::x, operands.x);
  set(BufferRole::direction, operands.direction);
  set(BufferRole::seeds, operands.seeds);
  set(BufferRole::uniforms, operands.uniforms);
  set(BufferRole::scalars, operands.scalars);
  set(BufferRole::failures, operands.failures);
  return made;
}

void bind_sinks(BindingTable& table, const ValueSinks& sinks) {
  table.set(BufferRole::costs, *sinks.costs);
  if (sinks.rows != nullptr) table.set(BufferRole::rows, *sinks.rows);
}

std::uint64_t most_owners(const Context& context, std::uint32_t width, bool scalars) {
  // A scalar's place among packed triangles of blocks up to the greatest width.
  const std::uint64_t sums = scalars                            ? (codegen::kMaxBlockWidth + 2) / 2
                             : width <= codegen::kMaxBlockWidth ? width * (width + 1) / 2
                                                                : width;
  constexpr std::uint64_t kSlack = 4 * kOutAlignment;
  const std::uint64_t numbers = context.max_range() / context.element_bytes();
  return numbers <= kSlack + sums ? 1 : (numbers - kSlack) / sums;
}

std::uint32_t bind_target(const Context& context, BindingTable& table, const SumTarget& target,
                          std::uint32_t sums, std::uint32_t first_output,
                          std::uint32_t last_output) {
  const std::uint64_t bytes = context.element_bytes();
  if (target.out->size() <= context.max_range()) {
    table.set(BufferRole::results, *target.out);
    return static_cast<std::uint32_t>(target.first);
  }
  std::uint64_t first = target.first + std::uint64_t{first_output} * sums;
  std::uint64_t last = target.first + std::uint64_t{last_output} * sums + sums;
  if (target.positions != nullptr) {
    first = (*target.positions)[first_output];
    last = (*target.positions)[last_output] + 1;
  }
  first = first / kOutAlignment * kOutAlignment;
  table.set(BufferRole::results, *target.out, first * bytes, (last - first) * bytes);
  return static_cast<std::uint32_t>(target.first - first);
}

}  // namespace topograd::runtime::vulkan
