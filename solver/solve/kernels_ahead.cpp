// Internal: the kernels of a solve, made before it.
#include "kernels_ahead.hpp"

#include "../../ir/error.hpp"
#include "../first_order/minimize.hpp"
#include "../session/device_engine.hpp"

#include <chrono>
#include <thread>

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;

/// True once the kernels of the method are there.
bool begin_kernels(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options,
                   bool host_steps) {
  if (takes_energies(options.method)) return prepare_cost(engine, model, options);
  bool there = runtime::prepare_step(engine);
  if (!host_steps) return there;
  for (const auto pass :
       {runtime::Pass::residual, runtime::Pass::gradient, runtime::Pass::jacobian})
    there &= runtime::prepare(engine, pass);  // all begin
  return there;
}

}  // namespace

void make_kernels(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options,
                  std::span<const double> x, bool host_steps) {
  constexpr std::chrono::minutes kLongest{10};
  const Clock::time_point begin = Clock::now();
  const auto wait = [&] {
    while (!begin_kernels(engine, model, options, host_steps) || unmade_kernels() > 0) {
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
    engine.set_point(x);
    wait();
  }
}

}  // namespace topograd
