// The one executor of this process.
#pragma once

#include <topograd/runtime/hybrid/executor.hpp>
#include <topograd/runtime/hybrid/process_options.hpp>

#include <memory>

namespace topograd::runtime::hybrid {

/// For solves, Evaluators, operations of arrays and tensors, and tasks of users: one queue account
/// and one breaker a device. Made at the first call, with options from the environment
/// (process_hybrid_options()); whoever keeps it may use it until the process ends.
///
/// Throws Error{InvalidArgument} for variables that cannot be read.
inline const std::shared_ptr<Executor>& process_executor() {
  static const auto executor = std::make_shared<Executor>(process_hybrid_options());
  return executor;
}

}  // namespace topograd::runtime::hybrid
