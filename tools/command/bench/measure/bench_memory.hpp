// Where the memory of a problem and its engine goes.
#pragma once

#include "../../input/named_problem.hpp"

#include "../../../../runtime/engine/engine.hpp"
#include "../../../../runtime/rows/rows.hpp"
#include "../../../../solver/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>

namespace topograd::command {

/// Counts what this process takes from its allocator from now on.
class MemoryMeter {
 public:
  /// With the backend vulkan the device is opened first, if it can be, and what that takes is said
  /// to be the driver's.
  explicit MemoryMeter(const SolverOptions& options);
  /// host_bytes, taken since then; device_bytes, taken from the driver for the engine's device;
  /// memory, a list of {use, host, device}; host_bytes_explained and device_bytes_explained, its
  /// sums.
  nlohmann::ordered_json report(NamedProblem& named, const runtime::Model& model,
                                runtime::Engine& engine) const;

 private:
  std::uint64_t before_ = 0, driver_ = 0;
  std::unique_ptr<runtime::RowRunner> opened_;
};

}  // namespace topograd::command
