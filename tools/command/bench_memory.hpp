// Where the memory of a problem and its engine goes.
#pragma once

#include "command/named_problem.hpp"

#include <topograd/runtime/engine.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace topograd::command {

/// Counts what this process takes from its allocator from now on.
class MemoryMeter {
 public:
  MemoryMeter();
  /// host_bytes, taken since then; device_bytes, taken from the driver for the engine's device;
  /// memory, a list of {use, host, device}; host_bytes_explained and device_bytes_explained, its
  /// sums.
  nlohmann::ordered_json report(NamedProblem& named, const runtime::Model& model,
                                const runtime::Engine& engine) const;

 private:
  std::uint64_t before_ = 0;
};

}  // namespace topograd::command
