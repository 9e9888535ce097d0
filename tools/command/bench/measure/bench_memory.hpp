// Measures the memory of a problem and its engine.
#pragma once

#include "../../input/named_problem.hpp"

#include "../../../../runtime/engine/engine.hpp"
#include "../../../../runtime/rows/rows.hpp"
#include "../../../../solver/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>

namespace topograd::command {

/// Counts memory that this process allocates from now on.
class MemoryMeter {
 public:
  /// For the backend vulkan, opens the device first, if possible, as memory of the driver.
  explicit MemoryMeter(const SolverOptions& options);
  /// Keys: host_bytes, allocated since construction; device_bytes, allocated from the driver for
  /// the engine's device; memory, a list of {use, host, device}; and its sums, host_bytes_explained
  /// and device_bytes_explained.
  nlohmann::ordered_json report(NamedProblem& named, const runtime::Model& model,
                                runtime::Engine& engine) const;

 private:
  std::uint64_t before_ = 0, driver_ = 0;
  std::unique_ptr<runtime::RowRunner> opened_;
};

}  // namespace topograd::command
