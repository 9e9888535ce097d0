// Damped steps of several processes, each on its part.
#include "distributed_steps.hpp"

#include "../ir/error.hpp"

#include <exception>
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

}  // namespace topograd::distributed
