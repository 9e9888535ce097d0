// Steps of two engines, of which the second one restores the state of the first.
#include "restore.hpp"

#include "../../distributed/distributed_engine.hpp"
#include "../../solver/model/model.hpp"

#include "failure.hpp"

#include <cstdio>
#include <memory>
#include <vector>

namespace topograd::test {
namespace {

using distributed::Communicator;
using distributed::DistributedEngine;

std::string next_step(runtime::DampedSteps& steps) {
  const runtime::PointReport point = steps.linearize();
  const runtime::StepReport step = steps.try_step({.lambda = 1e-3});
  char line[200];
  std::snprintf(line, sizeof line, "cost %.17g trial %.17g step %.17g cg %d\n", point.cost,
                step.trial_cost, step.step_norm, step.linear_iterations);
  return line;
}

}  // namespace

std::string restored_step(const Case& of, const std::string& failure, const Communicator& ranks) {
  const FailingSubmission fails = FailingSubmission::parse(failure, ranks);
  const ProblemModel whole = make_model("test", *of.problem);
  std::vector<double> x(whole.model.scalars);
  of.problem->read_x(x);
  const auto make_engine = [&] {
    auto engine = std::make_unique<DistributedEngine>(
        ranks, whole.model,
        runtime::EngineOptions{.threads = 1, .mask = of.options.restrictions.mask},
        distributed::PartitionMethod::scotch, choose_device(ranks, of.options));
    engine->abilities().steps->begin_solve();
    engine->set_point(x);
    return engine;
  };
  std::unique_ptr<DistributedEngine> engine = make_engine();
  runtime::DampedSteps* steps = engine->abilities().steps;
  next_step(*steps);
  steps->accept();
  engine->point(x);
  ir::StateRecord saved;
  steps->transfer(saved);
  std::string out = next_step(*steps);

  engine = make_engine();
  steps = engine->abilities().steps;
  ir::StateRecord record(saved.bytes());
  fails.begin();
  steps->transfer(record);
  const double failed = fails.end();
  record.require_end();
  out += next_step(*steps);
  const std::vector<std::string> devices = ranks.gather_bytes(engine->report().device);
  const std::vector<double> failures = ranks.gather(std::vector{failed});
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    out += std::to_string(static_cast<int>(failures[rank])) + " " + devices[rank] + "\n";
  return out;
}

}  // namespace topograd::test
