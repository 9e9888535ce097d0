// The weights and the shifts of constraints' residuals and barriers, which a solve changes.
#pragma once

#include "../problem.hpp"

#include <cstdint>
#include <span>

namespace topograd {

/// Sets the numbers of the residuals that penalise constraints (constraint_program.hpp): r =
/// w (s − d c), and of barriers −w log (c + s). They change during a solve, without compiling or
/// planning. In new rows w and s are 0, and d is 1.
class Penalties {
 public:
  explicit Penalties(Problem& problem) : problem_(problem) {}

  /// Number of the first row of constraints, and of these rows.
  std::uint64_t first_row() const;
  std::size_t rows() const { return problem_.constraint_count(); }

  /// Replaces w of all constraints. Cost: constant.
  void set_weight(double weight) { set_weights(weight, weight); }
  /// The same for each kind.
  void set_weights(double equalities, double inequalities);
  /// Replaces s or d, one number for each row. Cost: linear in the rows.
  void set_shifts(std::span<const double> shifts) { set_column(0, shifts); }
  void set_scales(std::span<const double> scales) { set_column(1, scales); }

  /// c of a topology of constraints as the user wrote it. Its batch has more columns, at the end.
  static const ir::Program& plain(const Problem& problem, std::size_t topology);
  /// The barrier of a topology of inequalities, an energy on the same batch. It lives as long as
  /// the problem's topologies.
  static const ir::Topology& barrier(const Problem& problem, std::size_t topology);

 private:
  /// Writes the first or the second half of the hidden columns.
  void set_column(std::uint32_t half, std::span<const double> numbers);

  Problem& problem_;
};

}  // namespace topograd
