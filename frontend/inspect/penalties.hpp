// The weight and the shifts of constraints' residuals, which a solve changes.
#pragma once

#include "../problem.hpp"

#include <cstdint>
#include <span>

namespace topograd {

/// Sets the numbers of the residuals that penalise constraints (constraint_program.hpp): r =
/// w (s − c). They change during a solve, without compiling or planning.
class Penalties {
 public:
  explicit Penalties(Problem& problem) : problem_(problem) {}

  /// Number of the first row of constraints, and of these rows.
  std::uint64_t first_row() const;
  std::size_t rows() const { return problem_.constraint_count(); }

  /// Replaces w. Cost: constant.
  void set_weight(double weight);
  /// Replaces s, one number for each row. Cost: linear in the rows.
  void set_shifts(std::span<const double> shifts);

 private:
  Problem& problem_;
};

}  // namespace topograd
