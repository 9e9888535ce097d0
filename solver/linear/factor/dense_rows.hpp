// The whole Jacobian as a dense matrix, and damped steps by its QR decomposition: for a few
// unknowns whose normal equations have lost too many digits.
#pragma once

#include "../../../runtime/engine/engine.hpp"
#include "../../../runtime/model/model.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// Least squares of `matrix` y − `right`: a system of more rows than unknowns.
struct DampedRows {
  Eigen::MatrixXd matrix;
  Eigen::VectorXd right;
};
/// [J; √d] y = [−r; 0], which minimises ½‖r + J y‖² + ½ Σ d y².
///
///   damping  d >= 0, by column of J
DampedRows damped_rows(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& residuals,
                       const Eigen::VectorXd& damping);

/// The unit of a column for solve_rows().
///
///   first   its scale from the first derivatives, 0: it has none
///   square  of its norm here
///   damped  if not, a column counts that has become small beside its first scale
double scale_of_rows(double first, double square, bool damped);

/// The δ that minimises ½‖r + J δ‖² + ½ Σ d δ², the shortest one in units of `scale`, or nothing if
/// it is not finite.
std::optional<Eigen::VectorXd> solve_rows(const Eigen::MatrixXd& jacobian,
                                          const Eigen::VectorXd& residuals,
                                          const Eigen::VectorXd& damping,
                                          const Eigen::VectorXd& scale);

/// The Jacobian of a whole problem.
class DenseRows {
 public:
  /// The model must outlive it.
  ///
  ///   free  positions of the free scalars among all scalars
  DenseRows(const runtime::Model& model, std::span<const std::uint32_t> free);

  /// Reads residuals and Jacobians at the engine's point.
  void refresh(runtime::Engine& engine);
  /// solve_rows(). Cost: rows × unknowns².
  ///
  ///   damping  d >= 0, by free scalar
  ///   scale    > 0, by free scalar
  std::optional<Eigen::VectorXd> solve(const Eigen::VectorXd& damping,
                                       const Eigen::VectorXd& scale) const;
  /// −rᵀ J δ − ½‖J δ‖².
  double decrease(const Eigen::VectorXd& delta) const;

 private:
  const runtime::Model& model_;
  std::vector<std::int64_t> column_;  // by scalar; -1: constant
  Eigen::MatrixXd jacobian_;
  Eigen::VectorXd residuals_;
};

}  // namespace topograd
