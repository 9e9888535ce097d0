// Names, programs and targets of the passes.
#include "passes.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"

#include <algorithm>
#include <string>

namespace topograd::runtime {
namespace {

using ir::Id;
using ir::Op;

/// Position of (i, j), i <= j, in the packed upper triangle of a matrix with `width` rows.
std::uint32_t packed(std::uint32_t i, std::uint32_t j, std::uint32_t width) {
  return i * width - i * (i + 1) / 2 + j;
}

/// Jᵀ(J·t) with J read from data slots, row-major (m, n), its columns those of `slots`.
ir::Program stored_jtjp(const ir::Program& f, std::span<const std::uint32_t> slots) {
  const auto n = static_cast<std::uint32_t>(slots.size());
  const auto m = static_cast<std::uint32_t>(f.outputs.size());
  ir::Graph graph;
  const auto entry = [&](std::uint32_t row, std::uint32_t slot) {
    return graph.leaf(Op::Data, row * n + slot);
  };
  const auto sum_of_products = [&](std::uint32_t count, auto left, auto right) {
    Id sum = graph.add(Op::Mul, left(0), right(0));
    for (std::uint32_t k = 1; k < count; ++k) {
      sum = graph.add(Op::Add, sum, graph.add(Op::Mul, left(k), right(k)));
    }
    return sum;
  };
  std::vector<Id> image, outputs;
  for (std::uint32_t row = 0; row < m; ++row) {
    image.push_back(sum_of_products(
        n, [&](auto k) { return entry(row, k); },
        [&](auto k) { return graph.leaf(Op::Tangent, slots[k]); }));
  }
  for (std::uint32_t slot = 0; slot < n; ++slot) {
    outputs.push_back(sum_of_products(
        m, [&](auto k) { return entry(k, slot); }, [&](auto k) { return image[k]; }));
  }
  return graph.extract(outputs, {.parameters = f.leaves.parameters, .data = m * n});
}

ir::Program robust_program(Pass pass, const autodiff::Robust& f,
                           std::span<const std::uint32_t> slots) {
  switch (pass) {
    case Pass::residual: return autodiff::residual(f);
    case Pass::cost: return autodiff::cost(f);
    case Pass::jacobian: return autodiff::jacobian(f, autodiff::all_slots(f.residual));
    case Pass::jvp: return autodiff::jvp(f);
    case Pass::gradient: return autodiff::gradient(f, slots);
    case Pass::vjp: return autodiff::vjp(f, slots);
    case Pass::jtjp: return autodiff::jtjp(f, slots);
    case Pass::stored_jacobian: return autodiff::jacobian(f, slots);
    case Pass::stored_jtjp: return stored_jtjp(f.residual, slots);
    case Pass::diagonal: return autodiff::diagonal(f, slots);
    case Pass::blocks: return autodiff::block(f, slots);
    case Pass::hvp: return autodiff::hvp(autodiff::cost(f), slots);
    case Pass::hessian:
      return autodiff::hessian(autodiff::cost(f), autodiff::all_slots(f.residual));
    case Pass::guards: return ir::guard_failure(f.residual);
    case Pass::cost_gradient: return autodiff::gradient_and_cost(f, slots, false);
    case Pass::values: return autodiff::gradient_and_cost(f, slots, true);
  }
  return {};
}

}  // namespace

Pass pass_named(std::string_view text, std::span<const Pass> passes, std::string_view expected) {
  std::string names;
  for (const Pass pass : passes) {
    if (text == name(pass)) return pass;
    names += (names.empty() ? "" : ", ") + std::string(name(pass));
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(expected) + " " + names + ", got \"" + std::string(text) + "\"");
}

bool energies_take_part(Pass pass) {
  switch (pass) {
    case Pass::cost:
    case Pass::gradient:
    case Pass::hvp:
    case Pass::hessian:
    case Pass::guards:
    case Pass::cost_gradient:
    case Pass::values: return true;
    case Pass::residual:
    case Pass::jacobian:
    case Pass::jvp:
    case Pass::vjp:
    case Pass::jtjp:
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::blocks: return false;
  }
  return false;
}

ir::Program pass_program(Pass pass, const ir::Program& f, std::span<const std::uint32_t> slots,
                         bool energy, const ir::Program* loss) {
  if (loss != nullptr) return robust_program(pass, {f, *loss}, slots);
  if (energy && pass == Pass::cost) return ir::optimize(f);
  if (energy && pass == Pass::gradient) return autodiff::scalar_gradient(f, slots);
  if (energy && has_values(pass)) return autodiff::scalar_gradient_and_value(f, slots);
  switch (pass) {
    case Pass::residual: return ir::optimize(f);
    case Pass::cost: return autodiff::cost(f);
    case Pass::jacobian: return autodiff::jacobian(f, autodiff::all_slots(f));
    case Pass::jvp: return autodiff::jvp(f);
    case Pass::gradient: return autodiff::gradient(f, slots);
    case Pass::vjp: return autodiff::vjp(f, slots);
    case Pass::jtjp: return autodiff::jtjp(f, slots);
    case Pass::stored_jacobian: return autodiff::jacobian(f, slots);
    case Pass::stored_jtjp: return stored_jtjp(f, slots);
    case Pass::diagonal: return autodiff::diagonal(f, slots);
    case Pass::blocks: return autodiff::block(f, slots);
    case Pass::hvp: return autodiff::hvp(energy ? f : autodiff::cost(f), slots);
    case Pass::hessian:
      return autodiff::hessian(energy ? f : autodiff::cost(f), autodiff::all_slots(f));
    case Pass::guards: return ir::guard_failure(f);
    case Pass::cost_gradient: return autodiff::gradient_and_cost(f, slots, false);
    case Pass::values: return autodiff::gradient_and_cost(f, slots, true);
  }
  return {};
}

std::uint32_t rows_beside(Pass pass, const ir::Program& f, bool energy) {
  return pass == Pass::values && !energy ? static_cast<std::uint32_t>(f.outputs.size()) : 0;
}

std::uint32_t sums_of_block(Pass pass, std::uint32_t width) {
  return pass == Pass::blocks ? width * (width + 1) / 2 : width;
}

std::vector<std::uint32_t> targets(Pass pass, const SlotGroup& group, std::uint32_t width) {
  if (pass != Pass::blocks) return group.coordinates;
  std::vector<std::uint32_t> positions;
  for (std::size_t a = 0; a < group.slots.size(); ++a) {
    for (std::size_t b = a; b < group.slots.size(); ++b) {
      const auto [low, high] = std::minmax(group.coordinates[a], group.coordinates[b]);
      positions.push_back(packed(low, high, width));
    }
  }
  return positions;
}

}  // namespace topograd::runtime
