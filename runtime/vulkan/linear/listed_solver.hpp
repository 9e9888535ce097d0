// Conjugate gradients on the device with the sums of the CPU.
#pragma once

#include "../../engine/engine.hpp"
#include "../../model/listed_system.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace topograd::runtime::vulkan {

/// Makes a solver in f64 on the device that the options name. Throws the errors of open_context().
///
///   least_unknowns  systems with fewer are refused. By default those that a CPU solves as fast,
///                   which on a software device are all.
std::unique_ptr<ListedSolver> make_listed_solver(const EngineOptions& options,
                                                 std::optional<std::uint64_t> least_unknowns = {});

}  // namespace topograd::runtime::vulkan
