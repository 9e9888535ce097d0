// The linear model of a sum of squares at a point, for the minimisers of scalar functions: the
// units of its unknowns, and a step that shows what a gradient may not.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "../host/tangent_jacobian.hpp"
#include "../host/tangent_space.hpp"
#include "../model/host_terms.hpp"
#include "../model/model.hpp"
#include "../session/engines.hpp"
#include "control.hpp"
#include "descent.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// The residuals and the Jacobian of a point, from which damped Gauss–Newton steps follow without
/// further decompositions. Columns have norm 1.
class RowSteps {
 public:
  ///   jacobian  without columns of zeros
  ///   norms     of its columns
  RowSteps(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& norms,
           const Eigen::VectorXd& residuals, double least_pivot);

  bool is_finite() const { return moved_.allFinite(); }
  /// The step with the damping λ of the columns of norm 1, by column.
  Eigen::VectorXd step(double lambda) const;
  /// What the model promises of it.
  double promised(double lambda) const;
  /// Damping that changes the weakest direction.
  double weakest() const;

 private:
  Eigen::VectorXd norms_;
  Eigen::VectorXd values_;  // singular values that rounding does not hide
  Eigen::VectorXd moved_;   // −Uᵀ r
  Eigen::MatrixXd right_;   // V
};

/// Reads the Jacobian J of a problem's residuals, which costs about two gradients; on manifolds in
/// coordinates of tangents.
class RowModel final : public UnknownScales {
 public:
  /// All outlive it.
  ///
  ///   space  of the tangents in which steps are; null: they are in the numbers themselves
  RowModel(Engines& engines, const ProblemModel& problem, Precision precision,
           const TangentSpace* space);

  /// False if !exists_for(): then there are no scales and no steps.
  bool exists() const { return exists_; }
  /// False if the cost is not a sum of squares of rows that this process has.
  static bool exists_for(const ProblemModel& problem);

  /// Makes the scales those of the largest ‖J_i‖ of the solve so far, x included. An unknown
  /// without a derivative so far has that of the steepest one.
  void look(std::span<const double> x);
  /// look(), after 0, 1, 2, 4, 8, … calls; not after 0 where look() was called before.
  void look_now_and_then(std::span<const double> x) override;

  /// What steps from x may gain. Coordinates with g_i = 0 stay. Looks at x.
  struct Linearised {
    std::vector<std::uint32_t> moving;  ///< coordinates of the columns
    std::vector<double> downhill;       ///< −g_i / ‖J_i‖², by coordinate
    std::optional<RowSteps> steps;      ///< none for problems for which they take long
    double terms = 0;                   ///< √Σ (‖J_i‖ x_i)²
  };
  Linearised linearise(std::span<const double> x, std::span<const double> g);
  /// ‖J_i‖² by coordinate, and √Σ (‖J_i‖ x_i)². Looks at x.
  struct Columns {
    std::vector<double> squares;
    double terms = 0;
  };
  Columns columns_at(std::span<const double> x);

  /// Saves or restores the scales.
  void transfer(ir::StateRecord& record);

 private:
  /// Calls visit(row, coordinate, value) for all entries of J, by term.
  template <class Visit>
  void visit_entries(std::span<const double> x, const Visit& visit);
  /// J at x in coordinates of tangents.
  TangentJacobian tangents(std::span<const double> x);
  std::size_t columns() const;
  /// look(); returns ‖J_i‖² at x by coordinate.
  std::vector<double> squared_norms(std::span<const double> x);
  double terms(std::span<const double> x, const std::vector<double>& squares) const;
  Eigen::MatrixXd dense(std::span<const double> x, std::span<const std::uint32_t> moving);

  Engines& engines_;
  const runtime::Model& model_;
  Precision precision_;
  const TangentSpace* space_;
  HostTerms host_;  // none
  std::vector<double> basis_;
  bool exists_;
  std::uint64_t calls_ = 0;  // of look_now_and_then()
};

/// What steps must gain.
struct LeastGain {
  double change = 0;  ///< at least
  double zero = 0;    ///< and a cost that counts as zero, if rounding of J x can hide it
  double factor = 1;  ///< times the larger of these
};

/// What the row model says about the end of a descent.
enum class EndByRows {
  unknown,   ///< nothing
  agrees,    ///< no step of it gains as much
  denied,    ///< none gains as much, but much more is promised: second derivatives decide
  improved,  ///< some have, and the descent goes on from there
  stopped,   ///< some have, and the caller's callback ends the solve
};

/// Takes damped Gauss–Newton steps from the end of a descent while they promise to gain more than
/// `least`, the damping growing from none where the cost does not follow. Moves x there and records
/// the steps. Where the cost follows none, steps in single coordinates are tried: what one of them
/// gains does not depend on how far the others may go. For problems for which those take long, one
/// part of the step down the gradient in the units of the columns.
EndByRows improve(RowModel& rows, const Objective& objective, const LeastGain& least,
                  std::span<double> x, const SolverOptions& options, Summary& summary);

}  // namespace topograd
