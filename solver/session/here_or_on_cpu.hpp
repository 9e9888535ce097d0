// Work on the backend that `automatic` chooses, and on the CPU if a device fails.
#pragma once

#include "../../ir/error.hpp"
#include "../options.hpp"

namespace topograd {

/// True if work that failed with this error may be done again on the CPU: a device has failed that
/// `automatic` had chosen. The executor is told.
///
///   operation  as for open_session()
bool may_leave_device(const SolverOptions& options, const char* operation, const Error& error);

/// Does work with options that have a member `solver`, and once more on the CPU if
/// may_leave_device().
template <class Options, class Work>
auto here_or_on_cpu(Options options, const char* operation, const Work& work) {
  try {
    return work(options);
  } catch (const Error& error) {
    if (!may_leave_device(options.solver, operation, error)) throw;
  }
  options.solver.backend = Backend::cpu;
  return work(options);
}

}  // namespace topograd
