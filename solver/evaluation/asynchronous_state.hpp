// Internal: one evaluation in flight.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../asynchronous.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace topograd {

/// An evaluation that was begun: by the engine itself, or on a thread of the pool. One thread at a
/// time.
struct AsyncState {
  using Clock = std::chrono::steady_clock;

  bool ready() const;
  /// Waits for the results and completes them; never throws, keeps what was thrown.
  void finish();

  runtime::Pass pass = runtime::Pass::cost;
  std::vector<double> x, p;                       ///< where
  Eigen::VectorXd out;                            ///< results, once finished
  std::exception_ptr error;                       ///< instead of results
  std::shared_ptr<const runtime::Engine> engine;  ///< outlives `begun`
  std::unique_ptr<runtime::Pending> begun;        ///< by the engine
  std::future<void> running;                      ///< on the pool
  /// Set by the Evaluator: masks results, or evaluates again if a device failed.
  std::function<void(AsyncState&)> complete;
  std::shared_ptr<AsyncFigures> figures;
  Clock::time_point since;
  bool finished = false;
};

/// Runs on a thread of TBB's pool.
std::future<void> run_on_pool(std::function<void()> task);

}  // namespace topograd
