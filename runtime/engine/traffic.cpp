// Counts the bytes of columns, unknowns and results.
#include "traffic.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../cpu/interpreter/compact.hpp"
#include "../plan/column_forms.hpp"
#include "../plan/passes.hpp"
#include "../plan/requests.hpp"

namespace topograd::runtime {
namespace {

bool reads_direction(Pass pass) {
  return pass == Pass::jtjp || pass == Pass::jvp || pass == Pass::hvp;
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

std::uint64_t Traffic::results(const TermBytes& term, Pass pass) const {
  const std::uint64_t rows = term.term.topology->program.outputs.size();
  switch (pass) {
    case Pass::residual:
    case Pass::jvp: return term.instances * rows * number_;
    case Pass::values: return term.term.energy ? 0 : term.instances * rows * number_;
    case Pass::jacobian:
      return term.instances * number_ * (rows + distinct_outputs(term.term, Pass::jacobian));
    case Pass::hessian:
      return term.instances * number_ * distinct_outputs(term.term, Pass::hessian);
    case Pass::vjp: return term.instances * rows * number_;  // seeds, which are read
    case Pass::cost:
    case Pass::gradient:
    case Pass::jtjp:
    case Pass::blocks:
    case Pass::hvp:
    case Pass::cost_gradient:
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  return 0;
}

std::uint64_t Traffic::bytes(Pass pass) const {
  std::uint64_t total = scalars_ * number_ * (reads_direction(pass) ? 2 : 1);
  switch (pass) {
    case Pass::gradient:
    case Pass::jtjp:
    case Pass::vjp:
    case Pass::cost_gradient:
    case Pass::values:
    case Pass::hvp: total += scalars_ * number_; break;
    case Pass::blocks: total += packed_blocks_ * number_; break;
    case Pass::residual:
    case Pass::cost:
    case Pass::jacobian:
    case Pass::jvp:
    case Pass::hessian:
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  for (const TermBytes& term : terms_) {
    if (term.term.energy && !energies_take_part(pass)) continue;
    total += term.columns + results(term, pass);
  }
  return total;
}

std::uint64_t Traffic::step_bytes(int iterations) const {
  constexpr std::uint64_t kVectorsBesideTheProduct = 9;
  return bytes(Pass::gradient) +
         static_cast<std::uint64_t>(iterations) *
             (bytes(Pass::jtjp) + kVectorsBesideTheProduct * scalars_ * number_);
}

}  // namespace topograd::runtime
