// Constraints in the summary of a solve: multipliers, active constraints, violations.
#pragma once

#include "../frontend/block_kind.hpp"
#include "../ir/enum_table.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Outcome of a constraint.
enum class ConstraintOutcome {
  inactive,    ///< met with room to spare: its multipliers are 0
  active,      ///< met, and its multipliers or at least one of them is not 0
  redundant,   ///< met, but its gradients depend on those of others: multipliers are not unique
  fixed,       ///< met, but reads only fixed unknowns: nothing could change it
  infeasible,  ///< cannot be met
  violated,    ///< not met yet where the solve ended
  outside,     ///< not positive at the start of a barrier
};
TG_ENUM_NAMES(ConstraintOutcome)

/// The constraints of one label and kind.
struct ConstraintSummary {
  std::string label;                                        ///< empty if none was given
  BlockKind kind = BlockKind::equality;                     ///< or inequality
  ConstraintOutcome outcome = ConstraintOutcome::inactive;  ///< of all: the last one that applies
  std::uint64_t rows = 0;                                   ///< scalar constraints
  std::uint64_t active = 0;         ///< equalities, and inequalities with a positive multiplier
  std::uint64_t redundant = 0;      ///< rows whose gradients depend on those of others
  double violation = 0;             ///< largest |c|, or max(0, −c)
  double largest_multiplier = 0;    ///< max |λ|
  std::vector<double> multipliers;  ///< λ by row, in the order of adding
};

/// "equality" or "inequality".
constexpr std::string_view kind_name(const ConstraintSummary& of) {
  return of.kind == BlockKind::equality ? "equality" : "inequality";
}

/// Residuals of the Karush–Kuhn–Tucker conditions, with the Lagrangian f − λᵀc, in the problem's
/// units.
struct KktResiduals {
  double stationarity = 0;     ///< max |∇f − Jcᵀλ| over what is free and within the bounds
  double feasibility = 0;      ///< largest |c|, or max(0, −c)
  double complementarity = 0;  ///< max |λ c| of the inequalities
};

/// Result of a solve with constraints.
struct ConstrainedSummary {
  int outer_iterations = 0;  ///< minimisations; multipliers or penalties changed between them
  double penalty = 0;        ///< μ of the last one
  double barrier = 0;        ///< of `barrier`: the factor of −log c in the last one
  KktResiduals kkt;
  std::vector<ConstraintSummary> constraints;  ///< by label and kind, in the order of adding
  std::vector<double> multipliers;             ///< λ of all rows, in the order of adding
  /// Name of the constraint that cannot be met, or beyond which a barrier starts; empty: none was
  /// found.
  std::string infeasible;
};

}  // namespace topograd
