// Jacobians in forward or reverse mode, whichever leaves fewer operations.
#include "../ir/passes/passes.hpp"
#include "derivatives.hpp"
#include "sweep.hpp"

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::kNone;

enum class Mode { Forward, Reverse };

// J by rows, kNone for structural zeros.
std::vector<Id> entries(Builder& builder, Slots slots, Mode mode) {
  const std::size_t rows = builder.outputs().size();
  const Id one = builder.graph().literal(1);
  std::vector<Id> jacobian(rows * slots.size(), kNone);
  if (mode == Mode::Reverse) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<Id> seeds(rows, kNone);
      seeds[row] = one;
      const std::vector<Id> adjoints = reverse(builder, seeds, slots);
      std::copy(adjoints.begin(), adjoints.end(), jacobian.begin() + row * slots.size());
    }
    return jacobian;
  }
  for (std::size_t k = 0; k < slots.size(); ++k) {
    std::vector<Id> tangents(builder.leaves().parameters, kNone);
    tangents[slots[k]] = one;
    const std::vector<Id> column = forward(builder, tangents);
    for (std::size_t row = 0; row < rows; ++row) jacobian[row * slots.size() + k] = column[row];
  }
  return jacobian;
}

ir::Program in_mode(const ir::Program& f, Slots slots, bool with_residual, Mode mode) {
  Builder builder(f);
  std::vector<Id> outputs;
  if (with_residual) outputs = builder.outputs();
  const std::vector<Id> jacobian = entries(builder, slots, mode);
  outputs.insert(outputs.end(), jacobian.begin(), jacobian.end());
  return builder.extract(outputs, builder.leaves());
}

// A mode costs about `sweeps` times f's nodes before simplification. It is not tried if that is
// this many times the cost of the other mode.
constexpr std::size_t kHopeless = 16;

ir::Program best(const ir::Program& f, Slots slots, bool with_residual) {
  check_slots(f, slots);
  const ir::Program primal = ir::optimize(f);
  const std::size_t rows = primal.outputs.size(), columns = slots.size();
  if (columns > kHopeless * rows) return in_mode(primal, slots, with_residual, Mode::Reverse);
  if (rows > kHopeless * columns) return in_mode(primal, slots, with_residual, Mode::Forward);
  ir::Program reverse = in_mode(primal, slots, with_residual, Mode::Reverse);
  ir::Program forward = in_mode(primal, slots, with_residual, Mode::Forward);
  const bool fewer = ir::operation_count(forward) < ir::operation_count(reverse);
  return fewer ? std::move(forward) : std::move(reverse);
}

}  // namespace

ir::Program jacobian(const ir::Program& f, Slots slots) { return best(f, slots, false); }

ir::Program residual_and_jacobian(const ir::Program& f, Slots slots) {
  return best(f, slots, true);
}

}  // namespace topograd::autodiff
