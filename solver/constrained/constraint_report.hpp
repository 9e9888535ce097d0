// Constraints by label: multipliers, active sets, and constraints that depend on each other.
#pragma once

#include "../constraints.hpp"
#include "../model/model.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// "constraint "gap" #3": label and place in its batch.
///
///   row  of the model
std::string constraint_name(const Problem& problem, const ProblemModel& model, std::uint64_t row);

/// The end of a constrained solve.
struct ConstrainedEnd {
  const Problem& problem;
  const ProblemModel& model;
  const runtime::Engine& engine;
  std::span<const double> point;
  std::uint64_t first_row = 0;
  const std::vector<bool>& fixed;  ///< by row of the constraints, like the next three
  const std::vector<bool>& outside;
  std::span<const double> multipliers;
  std::span<const double> violation;
  std::span<const double> tolerance;
  bool infeasible = false;  ///< no solution was found, whatever the limits
};

/// The most rows of active constraints that are examined for dependence (a dense QR).
inline constexpr std::size_t kMostExaminedRows = 300;

/// Constraints by label and kind, in the order of adding.
std::vector<ConstraintSummary> summarise(const ConstrainedEnd& end);

}  // namespace topograd
