// Evaluations and steps of all ranks, begun by rank 0.
#include "distributed_engine.hpp"

#include "../ir/error.hpp"
#include "../runtime/rows/rows.hpp"
#include "petsc_krylov.hpp"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace topograd::distributed {

using runtime::StepReport;

void DistributedSteps::begin_solve() {
  calls_.part().steps().begin_solve();
  calls_.note([](StepHistory& history) { history.begin_solve(); });
}

void DistributedSteps::accept() {
  std::vector<double> trial;
  calls_.on_engine([&](RankPart& part) {
    if (part.has_devices()) {
      trial.resize(part.scalars_here());
      part.steps().trial_point(trial);
    }
    part.steps().accept();
  });
  calls_.note([&](StepHistory& history) { history.accept(std::move(trial)); });
}

void DistributedSteps::transfer(ir::StateRecord& record) {
  if (record.restores()) return restore(record);
  ir::StateRecord state;
  calls_.on_engine([&](RankPart& part) {
    state = {};
    state.set_part(&part);
    part.steps().transfer(state);
  });
  record.append(state);
}

// All ranks refuse a state that does not fit, so this ends none of them.
void DistributedSteps::restore(ir::StateRecord& record) {
  const ir::StateRecord start = record;
  std::exception_ptr refused;
  calls_.on_engine([&](RankPart& part) {
    record = start;  // a device may have failed half-way
    record.set_part(&part);
    try {
      part.steps().transfer(record);
      keep_scaling();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Parse) throw;
      refused = std::current_exception();
    }
  });
  record.set_part(nullptr);
  if (refused) std::rethrow_exception(refused);
}

void DistributedSteps::keep_scaling() {
  calls_.note([&](StepHistory& history) { history.keep_scaling(calls_.part().steps()); });
}

runtime::PointReport DistributedSteps::linearize() {
  runtime::PointReport report;
  calls_.on_engine([&](RankPart& part) { report = part.steps().linearize(); });
  calls_.note([](StepHistory& history) { history.linearize(); });
  return report;
}

template <class Step>
StepReport DistributedSteps::step(const Step& step) {
  calls_.note([](StepHistory& history) { history.begin_step(); });
  StepReport report;
  calls_.on_engine([&](RankPart& part) {
    report = part.steps().try_step(step);
    if (!calls_.history().has_scaling()) keep_scaling();
  });
  calls_.note([&](StepHistory& history) { history.step(step); });
  return report;
}

StepReport DistributedSteps::try_step(const runtime::StepRequest& request) { return step(request); }

StepReport DistributedSteps::try_step(std::span<const double> delta) {
  return step(calls_.part().narrowed(delta));
}

void DistributedSteps::trial_point(std::span<double> x) {
  calls_([&](RankPart& part) {
    part.join(x, [&](std::span<double> here) { part.steps().trial_point(here); });
  });
}

runtime::PreconditionerUse DistributedSteps::preconditioner() const {
  return calls_.part().steps().preconditioner();
}
runtime::NormalMatrixUse DistributedSteps::normal_matrix() const {
  return calls_.part().steps().normal_matrix();
}

StepReport DistributedSteps::rescale_step(double length) {
  StepReport report;
  calls_.on_engine([&](RankPart& part) {
    report = part.engine().abilities().step_lengths->rescale_step(length);
  });
  calls_.note([&](StepHistory& history) { history.rescale(length); });
  return report;
}

void DistributedSteps::last_step(std::span<double> delta) {
  calls_([&](RankPart& part) {
    part.join(delta, [&](std::span<double> here) {
      part.engine().abilities().last_step->last_step(here);
    });
  });
}

using runtime::Model;
using Numbers = std::span<const double>;
using Out = std::span<double>;

namespace {

[[noreturn]] void refuse_branch() {
  throw Error(ErrorCode::Unsupported,
              "distributed: a residual has taken another branch; expected branches on values to "
              "stay, or select()");
}

std::vector<std::uint64_t> structure_of(const Model& model) {
  std::vector<std::uint64_t> out;
  for (const runtime::Term& term : model.terms) out.push_back(term.batch->structure_version());
  return out;
}

}  // namespace

DistributedEngine::DistributedEngine(const Communicator& ranks, const Model& model,
                                     const runtime::EngineOptions& options, PartitionMethod method,
                                     RankDevice device, bool petsc_krylov, const Shares* shares)
    : ranks_(ranks),
      options_(options),
      method_(method),
      device_(std::move(device)),
      shares_(shares) {
  options_.deterministic = true;
  options_.preconditioner = runtime::Preconditioner::block_jacobi;
  if (petsc_krylov) options_.krylov = std::make_shared<PetscKrylov>(ranks);
  build(model);
}

void DistributedEngine::build(const Model& model) {
  calls_.use(nullptr);  // its memory goes first
  together(ranks_, [&] {
    calls_.use(std::make_unique<RankPart>(ranks_, model, options_, method_, device_, shares_));
  });
  structure_ = structure_of(model);
}

std::unique_ptr<runtime::RowRunner> DistributedEngine::row_runner() const {
  return inner().row_runner();
}

void DistributedEngine::refresh(const Model& model) {
  if (structure_of(model) != structure_) refuse_branch();
  std::vector<double> x(model.scalars);
  point(x);
  build(model);
  set_point(x);
}

runtime::Abilities DistributedEngine::abilities() {
  return {.steps = &steps_,
          .step_lengths = &steps_,
          .last_step = &steps_,
          .second_derivatives = this,
          .guards = this,
          .known_point = this,
          .plans = inner().abilities().plans};
}

std::string DistributedEngine::device() const {
  const std::string ranks =
      std::to_string(ranks_.size()) + (ranks_.size() == 1 ? " rank" : " ranks");
  return ranks + ", " + inner().device();
}

void DistributedEngine::set_point(Numbers x) {
  const Numbers here = part().narrowed(x);
  calls_.on_engine([&](RankPart& part) { part.engine().set_point(here); });
  calls_.note([&](StepHistory& history) { history.set_point(here); });
}

void DistributedEngine::point(Out x) {
  calls_([&](RankPart& part) { part.join(x, [&](Out here) { part.engine().point(here); }); });
}

bool DistributedEngine::last_known_point(Out x) {
  point(x);
  return true;
}

double DistributedEngine::cost() {
  return number([&] { return inner().cost(); });
}

double DistributedEngine::number(const std::function<double()>& f) {
  double out = 0;
  calls_.on_engine([&](RankPart&) { out = f(); });
  return out;
}

void DistributedEngine::residuals(Out out) {
  calls_([&](RankPart& part) { part.join_rows(out, [&](Out rows) { inner().residuals(rows); }); });
}

void DistributedEngine::gradient(Out out) {
  calls_([&](RankPart& part) { part.join(out, [&](Out here) { inner().gradient(here); }); });
}

void DistributedEngine::jacobian(std::size_t term, Out values) {
  const runtime::Term* const here = part().term(term);
  const std::size_t size =
      here == nullptr ? 0
                      : here->topology->program.outputs.size() * here->batch->parameter_columns();
  calls_([&](RankPart& part) {
    part.join_instances(term, values, size,
                        [&](std::size_t t, Out numbers) { inner().jacobian(t, numbers); });
  });
}

void DistributedEngine::jvp(Numbers p, Out out) {
  const Numbers here = part().narrowed(p);
  calls_([&](RankPart& part) { part.join_rows(out, [&](Out rows) { inner().jvp(here, rows); }); });
}

void DistributedEngine::vjp(Numbers seeds, Out out) {
  calls_([&](RankPart& part) { part.join(out, [&](Out here) { inner().vjp(seeds, here); }); });
}

void DistributedEngine::jtjp(Numbers p, Out out) {
  calls_([&](RankPart& part) {
    part.join_product(p, out, [&](Numbers in, Out here) { inner().jtjp(in, here); });
  });
}

void DistributedEngine::hvp(Numbers p, Out out) {
  calls_([&](RankPart& part) {
    part.join_product(p, out, [&](Numbers in, Out here) {
      inner().abilities().second_derivatives->hvp(in, here);
    });
  });
}

void DistributedEngine::hessian(std::size_t term, bool project, Out values) {
  const runtime::Term* const here = part().term(term);
  const std::size_t n = here == nullptr ? 0 : here->batch->parameter_columns();
  calls_([&](RankPart& part) {
    part.join_instances(term, values, n * (n + 1) / 2, [&](std::size_t t, Out numbers) {
      inner().abilities().second_derivatives->hessian(t, project, numbers);
    });
  });
}

std::uint64_t DistributedEngine::failed_guards() {
  std::uint64_t here = 0;
  calls_.on_engine(
      [&](RankPart& part) { here = part.engine().abilities().guards->failed_guards(); });
  return ranks_.sum(here);
}

std::vector<std::uint32_t> DistributedEngine::failed_instances(std::size_t term, At at) {
  if (shares_ != nullptr) refuse_branch();  // the numbers would be those of other ranks
  return calls_([&](RankPart& part) {
    return part.join_lists(term, [&](std::size_t here) {
      return inner().abilities().guards->failed_instances(here, at);
    });
  });
}

double DistributedEngine::trial_cost() {
  return number([&] { return inner().abilities().guards->trial_cost(); });
}

}  // namespace topograd::distributed
