// Features of one item, computed from the whole task.
#pragma once

#include "decision.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace topograd::runtime::hybrid {

/// A number without a default, which must be given.
struct Stated {
  double value;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Stated(T number) : value(static_cast<double>(number)) {}  // NOLINT: as numbers are
  constexpr operator double() const { return value; }                 // NOLINT
};

/// Totals of a task.
struct Work {
  Stated operations;     ///< arithmetic; comparisons count, copies do not
  Stated bytes_read;     ///< of different elements
  Stated bytes_written;  ///< of different elements
  double reads = 0;      ///< bytes read with repetitions; 0: bytes_read
  double steps = 1;      ///< dependent steps, in operations of an item
  MemoryPattern pattern = MemoryPattern::streaming;

  /// Features per item of `items`. An item has at least one operation.
  Features per_item(std::uint64_t items) const {
    const double n = static_cast<double>(std::max<std::uint64_t>(items, 1));
    return {.operations = std::max(1.0, operations / n),
            .bytes = (bytes_read + bytes_written) / n,
            .parallelism = 1 / std::max(1.0, steps),
            .reuse = bytes_read > 0 ? std::max(1.0, reads / bytes_read) : 1,
            .pattern = pattern};
  }
};

/// Steps of a tree that combines this many numbers, and the first read of each.
inline double tree_steps(double count) { return 1 + std::ceil(std::log2(std::max(count, 1.0))); }

}  // namespace topograd::runtime::hybrid
