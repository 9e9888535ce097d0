// The one executor of this process.
#pragma once

#include "executor.hpp"
#include "routing/process_options.hpp"

#include <cstdlib>
#include <memory>

namespace topograd::runtime::hybrid {

/// Returns the process's executor for solves, Evaluators, operations of arrays and tensors, and
/// tasks of users, so that each device has one queue account and one breaker. It is made at the
/// first call, with options from the environment (process_hybrid_options()), and lives until the
/// process ends.
///
/// Throws Error{InvalidArgument} for variables that cannot be read.
inline const std::shared_ptr<Executor>& process_executor() {
  // Never destroyed: other threads may still ask it while the process ends.
  static const auto& executor =
      *new std::shared_ptr<Executor>(std::make_shared<Executor>(process_hybrid_options()));
  [[maybe_unused]] static const int kSave = std::atexit([] { process_executor()->save_at_exit(); });
  return executor;
}

}  // namespace topograd::runtime::hybrid
