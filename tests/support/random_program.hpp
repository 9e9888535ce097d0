// The library's random programs under the names that tests use, and how many to take.
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

/// Of long series of random cases, builds without optimisation take every so-manyth.
#ifdef NDEBUG
inline constexpr std::uint64_t kStride = 1;
#else
inline constexpr std::uint64_t kStride = 6;
#endif

}  // namespace topograd::test
