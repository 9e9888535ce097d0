// The only functions by which the solver uses the Vulkan backend; built with or without it.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/listed_system.hpp"
#include "../../runtime/rows/rows.hpp"
#include "../executor.hpp"
#include "../plan/decide.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace topograd {

/// Looks for the device that the options choose. Does not throw for what is missing: that is in the
/// facts.
DeviceFacts probe_device(const SolverOptions& options);

/// The devices of this machine for several processes, as SolverOptions::device names them, in the
/// order of their UUIDs: all that can be opened and are not software, or software ones where there
/// are no others. SolverOptions::device chooses among them. Empty if there are none.
struct ListedDevices {
  std::vector<std::string> names;
  bool software = false;
};
ListedDevices devices_by_uuid(const SolverOptions& options);

/// Throws Error{Unsupported} if the device that the options choose is known to compute wrongly; the
/// first time it is made to show that it does not. After probe_device() found it usable.
void require_self_check(const SolverOptions& options);

/// The device that the options choose, for tasks; opened when one comes. After probe_device() found
/// it usable.
std::unique_ptr<runtime::hybrid::DeviceBackend> make_device_backend(const SolverOptions& options);

/// Opens the device that the options choose; the process keeps it. Any thread. Throws what the
/// backend throws; does nothing in a build without it.
void open_device(const SolverOptions& options);

/// Throws what the backend throws, and Error{Unsupported} in a build without it.
std::unique_ptr<runtime::Engine> make_device_engine(const runtime::Model& model,
                                                    const runtime::EngineOptions& options);

/// Kernels that engines of this process have begun to make in the background, and that are not
/// there yet.
std::size_t unmade_kernels();

/// Kernels on rows of numbers, on the device that the options name. Throws as make_device_engine().
std::unique_ptr<runtime::RowRunner> make_device_rows(const runtime::EngineOptions& options);

/// Conjugate gradients with the sums of the CPU, on that device. Throws as make_device_engine().
std::unique_ptr<runtime::ListedSolver> make_listed_solver(const runtime::EngineOptions& options);

}  // namespace topograd
