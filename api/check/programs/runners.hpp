// What the self-tests run on, and the numbers they draw.
#pragma once

#include "../../../ir/checking/random.hpp"
#include "../../../ir/program.hpp"
#include "../../../runtime/rows/rows.hpp"
#include "../../../solver/options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::check {

/// What to check, and how much of it.
struct Options {
  Backend backend = Backend::automatic;  ///< automatic: the interpreter, and a device if there is
  std::optional<Precision> precision;    ///< empty: f64 (where the device has it) and f32
  std::string device;                    ///< Vulkan: index or name
  std::uint64_t count = 0;               ///< random points an op, programs; 0 = the check's default
  std::uint64_t seed = 1;
};

/// One backend in one precision.
struct Place {
  std::unique_ptr<runtime::RowRunner> runner;
  bool keeps_subnormals = true;  ///< found by running a sum of them
};

/// All places that the options ask for. Throws what a forced device throws.
std::vector<Place> open_places(const Options& options);

/// The precisions among `places`, each once.
std::vector<Precision> precisions_of(std::span<const Place> places);

/// y = op(p0, p1, p2), composite ops written with others.
ir::Program single_op(ir::Op op);

using ir::Random;

/// Numbers as T, for calls that take spans of them.
template <class T>
std::vector<T> narrowed(std::span<const double> values) {
  std::vector<T> out;
  for (const double v : values) out.push_back(static_cast<T>(v));
  return out;
}

}  // namespace topograd::check
