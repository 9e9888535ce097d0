// The parts of a problem share the caller of errors, callables, and losses among the uniforms.
#include "problem_state.hpp"
#include "branch.hpp"
#include "callables.hpp"

#include <algorithm>

namespace topograd::detail {

ProblemState::ProblemState() : serial(next_serial()) { enter_problem(*this); }
ProblemState::~ProblemState() { leave_problem(*this); }

Callables& ProblemState::callables_of(BlockKind kind) {
  std::unique_ptr<Callables>& kept = callables[static_cast<std::size_t>(kind)];
  if (kept == nullptr) kept = std::make_unique<Callables>();
  return *kept;
}

Caller ProblemState::caller(std::string_view call, std::string_view label, BlockKind kind) const {
  return {.call = call,
          .label = label,
          .number = blocks.ledger(kind).blocks,
          .problem = serial,
          .parameters = unknowns.scalars(),
          .uniforms = uniforms.size(),
          .data = data.size(),
          .block = kind,
          .state = this};
}

std::uint32_t ProblemState::group_of(const ir::Canonical& canonical, BlockKind kind,
                                     std::uint32_t loss_program) {
  if (is_constraint(kind) && blocks.penalty_uniform == kNoUniform) {
    blocks.penalty_uniform = static_cast<std::uint32_t>(uniforms.size());
    uniforms.insert(uniforms.end(), {0, 0});
    ++versions.uniforms;
  }
  const std::size_t before = blocks.groups.size();
  const std::uint32_t group = blocks.group_of(canonical.topology, kind, loss_program);
  if (blocks.groups.size() > before && !canonical.exact) ++statistics.canonical_misses;
  return group;
}

std::uint32_t ProblemState::loss_entry(const char* call, const Loss& loss) {
  const std::size_t before = uniforms.size();
  const std::uint32_t entry = blocks.losses.entry(call, loss, uniforms);
  if (uniforms.size() > before) ++versions.uniforms;
  return entry;
}

void ProblemState::set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss) {
  blocks.set_loss(first, last, loss, uniforms);
  ++versions.uniforms;
}

}  // namespace topograd::detail
