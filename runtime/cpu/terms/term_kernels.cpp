// Programs and kernels of each part.
#include "term_kernels.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../plan/column_forms.hpp"

namespace topograd::runtime::cpu {
namespace {

bool is_stored(Part part) {
  return part == Part::Gradient || part == Part::Vjp || part == Part::Jtjp ||
         part == Part::Linear || part == Part::Hvp || part == Part::CostGradient ||
         part == Part::Values;
}

/// The gradient's outputs, then the rows; their squares are summed in double.
ir::Program gradient_and_rows(const ir::Program& f, std::span<const std::uint32_t> slots) {
  ir::Program program = autodiff::gradient_and_cost(f, slots, true);
  program.outputs.erase(program.outputs.begin() + static_cast<std::ptrdiff_t>(slots.size()));
  return ir::remove_dead(program);
}

ir::Program program_of(Part part, const ir::Program& f, bool energy) {
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  if (energy && part == Part::Gradient) return autodiff::scalar_gradient(f, slots);
  if (energy && (part == Part::CostGradient || part == Part::Values))
    return autodiff::scalar_gradient_and_value(f, slots);
  switch (part) {
    case Part::Residual:
    case Part::ApplyLinear:
    case Part::JtjpLinear: return f;
    case Part::Gradient: return autodiff::gradient(f, slots);
    case Part::Vjp: return autodiff::vjp(f, slots);
    case Part::Jtjp: return autodiff::jtjp(f, slots);
    case Part::Jvp: return autodiff::jvp(f);
    case Part::Jacobian: return autodiff::jacobian(f, slots);
    case Part::Linear: return autodiff::residual_and_jacobian(f, slots);
    case Part::Hvp: return autodiff::hvp(energy ? f : autodiff::cost(f), slots);
    case Part::Hessian: return autodiff::hessian(energy ? f : autodiff::cost(f), slots);
    case Part::Cost: return autodiff::cost(f);
    case Part::Guards: return ir::guard_failure(f);
    case Part::CostGradient:
    case Part::Values: return gradient_and_rows(f, slots);
  }
  return f;
}

ir::Program program_of(Part part, const autodiff::Robust& f) {
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f.residual);
  switch (part) {
    case Part::Residual: return autodiff::residual(f);
    case Part::ApplyLinear:
    case Part::JtjpLinear: return f.residual;
    case Part::Gradient: return autodiff::gradient(f, slots);
    case Part::Vjp: return autodiff::vjp(f, slots);
    case Part::Jtjp: return autodiff::jtjp(f, slots);
    case Part::Jvp: return autodiff::jvp(f);
    case Part::Jacobian: return autodiff::jacobian(f, slots);
    case Part::Linear: return autodiff::residual_and_jacobian(f, slots);
    case Part::Hvp: return autodiff::hvp(autodiff::cost(f), slots);
    case Part::Hessian: return autodiff::hessian(autodiff::cost(f), slots);
    case Part::Cost: return autodiff::cost(f);
    case Part::Guards: return ir::guard_failure(f.residual);
    case Part::CostGradient: return autodiff::gradient_and_cost(f, slots, false);
    case Part::Values: return autodiff::gradient_and_cost(f, slots, true);
  }
  return f.residual;
}

}  // namespace

template <class T>
ir::Program TermKernels<T>::program_of(Part part) const {
  return loss_ == nullptr ? cpu::program_of(part, program_, energy_)
                          : cpu::program_of(part, autodiff::Robust{program_, *loss_});
}

template <class T>
const Kernel<T>& TermKernels<T>::get(Part part) {
  std::unique_ptr<const Kernel<T>>& kernel = kernels_[static_cast<std::size_t>(part)];
  if (kernel == nullptr) kernel = std::make_unique<const Kernel<T>>(make(part));
  return *kernel;
}

template <class T>
Kernel<T> TermKernels<T>::make(Part part) {
  const std::size_t rows = program_.outputs.size();
  if (part == Part::ApplyLinear || part == Part::JtjpLinear) {
    const Kernel<T>& linear = get(Part::Linear);
    const std::span<const OutputSource> jacobian = std::span(linear.sources).subspan(rows);
    const std::uint32_t columns = linear.tile.program().outputs;
    const auto of = part == Part::ApplyLinear ? stored_jvp : stored_jtjp;
    const ir::Program product = of(jacobian, rows, program_.leaves, columns);
    return {TileKernel<T>(product, ops_), {}, 0, ir::operation_count(product), {}};
  }
  const ir::Program program = program_of(part);
  const auto kept = [&](const ir::Program& of) { return keeps_programs_ ? of : ir::Program{}; };
  if (!is_stored(part))
    return {TileKernel<T>(program, ops_), {}, 0, ir::operation_count(program), kept(program)};
  const bool values = part == Part::CostGradient || part == Part::Values;
  const std::size_t terms = values ? program_.leaves.parameters : program.outputs.size();
  CompactProgram compacted = compact(program, terms);
  const std::size_t columns = compacted.program.outputs.size() - (program.outputs.size() - terms);
  const std::uint64_t operations = ir::operation_count(compacted.program);
  return {TileKernel<T>(compacted.program, ops_), std::move(compacted.sources), columns, operations,
          kept(compacted.program)};
}

template class TermKernels<float>;
template class TermKernels<double>;

}  // namespace topograd::runtime::cpu
