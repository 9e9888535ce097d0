// Counts the bytes of columns, unknowns and results.
#include "traffic.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../cpu/interpreter/compact.hpp"
#include "../plan/column_forms.hpp"
#include "../plan/passes.hpp"
#include "../plan/requests.hpp"

namespace topograd::runtime {
namespace {

bool reads_direction(KernelKind kind) {
  return kind == KernelKind::jtjp || kind == KernelKind::jvp || kind == KernelKind::hvp;
}

bool energies_take_part(KernelKind kind) {
  return kind == KernelKind::cost || kind == KernelKind::gradient || kind == KernelKind::hvp ||
         kind == KernelKind::hessian || kind == KernelKind::cost_gradient ||
         kind == KernelKind::values;
}

/// Number of different values that a pass writes for one instance.
std::uint64_t distinct_outputs(const Term& term, Pass pass) {
  const ir::Program& f = term.topology->program;
  const ir::Program program = pass_program(pass, f, autodiff::all_slots(f), term.energy, term.loss);
  return cpu::compact(program).program.outputs.size();
}

}  // namespace

Traffic::Traffic(const Model& model, Precision precision)
    : number_(precision == Precision::f32 ? 4 : 8), scalars_(model.scalars) {
  for (const ParameterArray& a : model.arrays)
    packed_blocks_ += a.blocks * a.width * (a.width + 1) / 2;
  for (const Term& term : model.terms) {
    const ColumnForms forms = find_forms(*term.batch, shape_of(term, model.arrays).layout);
    const std::uint64_t row = 4ull * forms.stored_index() + number_ * forms.stored_data();
    terms_.push_back({term, term.batch->size(), row * term.batch->size()});
  }
}

std::uint64_t Traffic::results(const TermBytes& term, KernelKind kind) const {
  const std::uint64_t rows = term.term.topology->program.outputs.size();
  switch (kind) {
    case KernelKind::residual:
    case KernelKind::jvp: return term.instances * rows * number_;
    case KernelKind::values: return term.term.energy ? 0 : term.instances * rows * number_;
    case KernelKind::jacobian:
      return term.instances * number_ * (rows + distinct_outputs(term.term, Pass::jacobian));
    case KernelKind::hessian:
      return term.instances * number_ * distinct_outputs(term.term, Pass::hessian);
    case KernelKind::vjp: return term.instances * rows * number_;  // seeds, which are read
    default: return 0;
  }
}

std::uint64_t Traffic::bytes(KernelKind kind) const {
  std::uint64_t total = scalars_ * number_ * (reads_direction(kind) ? 2 : 1);
  switch (kind) {
    case KernelKind::gradient:
    case KernelKind::jtjp:
    case KernelKind::vjp:
    case KernelKind::cost_gradient:
    case KernelKind::values:
    case KernelKind::hvp: total += scalars_ * number_; break;
    case KernelKind::blocks: total += packed_blocks_ * number_; break;
    default: break;
  }
  for (const TermBytes& term : terms_) {
    if (term.term.energy && !energies_take_part(kind)) continue;
    total += term.columns + results(term, kind);
  }
  return total;
}

std::uint64_t Traffic::step_bytes(int iterations) const {
  constexpr std::uint64_t kVectorsBesideTheProduct = 9;
  return bytes(KernelKind::gradient) +
         static_cast<std::uint64_t>(iterations) *
             (bytes(KernelKind::jtjp) + kVectorsBesideTheProduct * scalars_ * number_);
}

}  // namespace topograd::runtime
