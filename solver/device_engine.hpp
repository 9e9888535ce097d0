// The one place where the solver meets the Vulkan backend; built with or without it.
#pragma once

#include <topograd/runtime/engine.hpp>
#include <topograd/runtime/rows.hpp>
#include <topograd/solver/placement.hpp>

#include <memory>

namespace topograd {

/// Looks for the device that the options choose. Does not throw for what is missing: that is in the
/// facts.
DeviceFacts probe_device(const SolverOptions& options);

/// Throws what the backend throws, and Error{Unsupported} in a build without it.
std::unique_ptr<runtime::Engine> make_device_engine(const runtime::Model& model,
                                                    const runtime::EngineOptions& options);

/// Kernels on rows of numbers, on the device that the options name. Throws as make_device_engine().
std::unique_ptr<runtime::RowRunner> make_device_rows(const runtime::EngineOptions& options);

}  // namespace topograd
