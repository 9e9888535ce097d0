// The library's random programs under short names for tests, and their number.
#pragma once

#include "../../ir/checking/random_program.hpp"

#include <cstdint>

namespace topograd::test {

using ir::all_ops;
using ir::Point;
using ir::random_point;
using ir::random_program;
using ir::RandomProgramOptions;
using ir::same_bits;
using ir::shrink;
using ir::smooth_ops;
using ir::special_values;

/// Builds without optimisation run only a part of long random series.
#ifdef NDEBUG
inline constexpr std::uint64_t kStride = 1;
#else
inline constexpr std::uint64_t kStride = 6;
#endif

}  // namespace topograd::test
