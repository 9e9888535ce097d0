// Options of the self-tests: where they run, and how much.
#pragma once

#include "../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace topograd::check {

struct Options {
  /// automatic: the interpreter, and a device if there is one.
  Backend backend = Backend::automatic;
  std::optional<Precision> precision = {};  ///< empty: f64 (if the device has it) and f32
  std::string device = {};                  ///< Vulkan: index or name
  Float64 float64 = Float64::automatic;     ///< Vulkan: f64 of the device
  std::uint64_t count = 0;  ///< random points per op, or programs; 0: the check's default
  std::uint64_t seed = 1;
};

}  // namespace topograd::check
