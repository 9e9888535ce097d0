// The weights and the shifts of constraints' residuals and barriers, which a solve changes.
#pragma once

#include "../problem.hpp"

#include <cstdint>
#include <span>

namespace topograd {

/// Sets the numbers of the residuals that penalise constraints (constraint_program.hpp): r =
/// w (s − c), and of barriers −w log (c + s). They change during a solve, without compiling or
/// planning.
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
  /// Replaces s, one number for each row. Cost: linear in the rows.
  void set_shifts(std::span<const double> shifts);

  /// c of a topology of constraints as the user wrote it. Its batch has more columns, at the end.
  static const ir::Program& plain(const Problem& problem, std::size_t topology);
  /// The barrier of a topology of inequalities, an energy on the same batch. It lives as long as
  /// the problem's topologies.
  static const ir::Topology& barrier(const Problem& problem, std::size_t topology);

 private:
  Problem& problem_;
};

}  // namespace topograd
