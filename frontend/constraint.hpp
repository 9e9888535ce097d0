// Handles and options of constraints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace topograd {

/// One constraint of a problem, which may have several rows. A handle.
struct Constraint {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding; constraints have ids of their own
};

/// The constraints of one call of add_equalities() or add_inequalities(), in the order of the
/// elements.
struct Constraints {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to, but without, `last`
  std::size_t count = 0;
};

/// Options of a constraint.
struct ConstraintOptions {
  /// Appears in errors and reports, where multipliers are listed by it; copied.
  std::string_view label = {};
};

}  // namespace topograd
