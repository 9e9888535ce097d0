// Runs the programs of constraints over their batches.
#include "constraint_values.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../runtime/model/model.hpp"
#include "../../runtime/plan/passes.hpp"

#include <memory>

namespace topograd {
namespace {

runtime::Columns run(const ProblemModel& model, runtime::RowRunner& runner, std::size_t term,
                     runtime::Pass pass, std::span<const double> x) {
  const ir::Program& plain = Penalties::plain(*model.problem, model.topologies[term]);
  const ir::Program program =
      ir::expand(runtime::pass_program(pass, plain, autodiff::all_slots(plain)));
  const runtime::Term& of = model.model.terms[term];
  return runner.run(program, runtime::rows_of(model.model, of, x, 0, of.batch->size()));
}

}  // namespace

std::size_t constraint_outputs(const ProblemModel& model, std::size_t term) {
  return Penalties::plain(*model.problem, model.topologies[term]).outputs.size();
}

std::vector<double> constraint_values(const ProblemModel& model, const runtime::Engine& engine,
                                      std::uint64_t first_row, std::span<const double> x) {
  const std::unique_ptr<runtime::RowRunner> runner = engine.row_runner();
  std::vector<double> out(model.problem->constraint_count());
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    if (!is_constraint(model.problem->kind(model.topologies[t]))) continue;
    const runtime::Columns c = run(model, *runner, t, runtime::Pass::residual, x);
    const ir::Batch& batch = *model.model.terms[t].batch;
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t k = 0; k < c.size(); ++k)
        out[batch.residual_row(i) - first_row + k] = c[k][i];
  }
  return out;
}

std::vector<double> constraint_jacobian(const ProblemModel& model, const runtime::Engine& engine,
                                        std::size_t term, std::span<const double> x) {
  const runtime::Columns entries =
      run(model, *engine.row_runner(), term, runtime::Pass::jacobian, x);
  std::vector<double> out(model.model.terms[term].batch->size() * entries.size());
  for (std::size_t k = 0; k < entries.size(); ++k)
    for (std::size_t i = 0; i < entries[k].size(); ++i) out[i * entries.size() + k] = entries[k][i];
  return out;
}

}  // namespace topograd
