// Opening of a device beside other work, and kernels that are made before a solve.
#include "ahead.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include "../../ir/error.hpp"
#include "../first_order/minimize.hpp"
#include "../session/device_engine.hpp"

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;

/// Needs of steps, and values that solvers on the host may come to read.
std::vector<runtime::Need> needs_of(const StepSolver* steps) {
  if (steps == nullptr) return {};
  std::vector<runtime::Need> needs = steps->needs();
  if (form_of(steps->kind()) == LinearForm::products) return needs;
  for (const auto pass :
       {runtime::Pass::residual, runtime::Pass::gradient, runtime::Pass::jacobian})
    needs.push_back(runtime::Need::evaluation(pass));
  return needs;
}

/// True once the kernels of the method are there.
bool begin_kernels(Engines& engines, const ProblemModel& model, const SolverOptions& options,
                   std::span<const runtime::Need> needs) {
  if (takes_energies(options.method)) return prepare_cost(engines, model, options);
  bool there = true;
  for (const runtime::Need& need : needs) there &= engines.prepare(need);  // all begin
  return there;
}

}  // namespace

DeviceAhead::DeviceAhead(const SolverOptions& options) {
  if (options.backend != Backend::vulkan) return;
  thread_ = std::jthread([options] {
    try {
      open_device(options);
    } catch (const Error&) {
      // Ignored: the solve opens the device again and reports it.
    }
  });
}

void make_kernels(Engines& engines, const ProblemModel& model, const SolverOptions& options,
                  const StepSolver* steps, std::span<const double> x) {
  constexpr std::chrono::minutes kLongest{10};
  const Clock::time_point begin = Clock::now();
  const std::vector<runtime::Need> needs = needs_of(steps);
  const auto wait = [&] {
    while (!begin_kernels(engines, model, options, needs) || unmade_kernels() > 0) {
      if (Clock::now() - begin > kLongest)
        throw Error(ErrorCode::Timeout, "warm_up: kernels were not made within 10 minutes");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait();
  // If many unknowns are fixed, or many instances share a number, other kernels replace these; one
  // kind after the other begins when a point is set.
  constexpr int kReplacements = 2;
  for (int k = 0; k < kReplacements; ++k) {
    engines.here().set_point(x);
    wait();
  }
}

}  // namespace topograd
