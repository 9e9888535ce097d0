// Pose graphs as problems: objectives, and how well poses agree with measurements.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../ir/enum_table.hpp"
#include "../../ir/share.hpp"
#include "../../solver/options.hpp"
#include "pose_graph.hpp"

namespace topograd {

/// Sum of squares over the edges.
///
///   chordal   Σ κ ‖R_j − R_i R̃‖²_F + τ ‖t_j − t_i − R_i t̃‖², with one weight each for rotation and
///             translation of an edge: d / tr(Ω_t⁻¹) for τ in d dimensions, 3 / (2 tr(Ω_R⁻¹)) for κ
///             in space and Ω₃₃ in the plane. Source: Rosen et al., SE-Sync, IJRR 2019.
///   chi2      Σ eᵀ Ω e, e = (R_iᵀ (t_j − t_i) − t̃, 2 vec(q̃ (q_i⁻¹ q_j)⁻¹)) in space, with the
///             quaternion that turns by at most π, and (R_iᵀ (t_j − t_i) − t̃, angle in [−π, π)) in
///             the plane.
///   geodesic  Σ ‖L e‖² with Ω = L Lᵀ, as in Ceres' examples; χ² only where Ω is diagonal.
///   g2o       Σ eᵀ Ω e with g2o's errors, which are in the frame of the measured pose:
///             (R̃ᵀ (R_iᵀ (t_j − t_i) − t̃), vec(q̃⁻¹ q_i⁻¹ q_j)) in space, without the factor 2, and
///             likewise in the plane. It is chi2 where Ω has one number for all coordinates and, in
///             space, a quarter of what chi2 has for the rotation.
///
/// Between sensors or calibrations the errors are those of their frames. A switch s multiplies the
/// error of its edge; its prior adds Ω (s − γ)².
///
/// A prior of a pose counts like an edge from the frame of the graph. A landmark has the error
/// e = S⁻¹ (X⁻¹ l) − l̃ where the sensor S of the pose X sees it, and priors of positions and of
/// landmarks the difference of the coordinates; all objectives but two weigh them by Ω: chordal
/// takes τ ‖e‖², geodesic ‖L e‖². A direction has the difference of the angles, chordal the
/// distance of the unit vectors, both times √Ω.
enum class PoseObjective { chordal, geodesic, chi2, g2o };
TG_ENUM_NAMES(PoseObjective)
/// Throws Error{InvalidArgument} that lists the names.
inline PoseObjective parse_pose_objective(std::string_view text) {
  return parse_enum<PoseObjective>("objective", text);
}

/// How well poses agree with measurements, without losses.
struct PoseGraphErrors {
  std::vector<double> edges;  ///< what each edge adds to the objective
  std::vector<double> sightings, priors;
  double objective = 0;  ///< the sum of all
  double chi2 = 0;       ///< that of PoseObjective::chi2, whatever the objective
};
/// Throws Error{InvalidArgument} for information matrices that the objective does not take:
/// geodesic for one that is not positive semidefinite, chordal for blocks that are neither positive
/// definite nor zero. Cost: linear in the measurements.
PoseGraphErrors pose_graph_errors(const PoseGraph& graph, PoseObjective objective);

struct PoseGraphOptions {
  PoseObjective objective = PoseObjective::chordal;
  Loss loss = {};  ///< of the rows of each edge and each sighting
  /// The problem has the rows of this share of the edges alone, in their order; likewise of the
  /// sightings and of the priors.
  Share share = {};
};

/// A graph and its least-squares problem; half of the objective is the cost, and the graph's
/// anchors() are constant. Neither copied nor moved, because the problem refers to the poses.
///
///   PoseGraphProblem graph(with_start(read_g2o("sphere2500.g2o"), PoseStart::chordal));
///   solve(graph.problem(), PoseGraphProblem::solver_options());
///   write_text_file("solved.g2o", g2o_text(graph.graph()));
class PoseGraphProblem {
 public:
  /// Throws Error{InvalidArgument} for a graph without measurements, and for information matrices
  /// that the objective does not take: chordal for blocks that are neither positive definite nor
  /// zero, the others for matrices that are not positive semidefinite.
  explicit PoseGraphProblem(PoseGraph graph, const PoseGraphOptions& options = {});
  PoseGraphProblem(const PoseGraphProblem&) = delete;
  PoseGraphProblem& operator=(const PoseGraphProblem&) = delete;

  /// Takes further residuals on positions() and rotations().
  Problem& problem() { return problem_; }
  const Parameters& positions() const { return positions_; }  ///< blocks of 2 or 3
  /// Blocks of an angle, or of a quaternion w, x, y, z.
  const Parameters& rotations() const { return rotations_; }
  /// Blocks of 2 or 3; only in a graph with landmarks.
  const Parameters& landmarks() const { return landmarks_; }

  /// Blocks of one number in [0, 1]; only in a graph with switches.
  const Parameters& switches() const { return switches_; }

  /// The graph with the present poses, landmarks and switches.
  PoseGraph graph() const;
  PoseObjective objective() const { return options_.objective; }
  PoseGraphErrors errors() const { return pose_graph_errors(graph(), objective()); }

  /// Returns Gauss–Newton: near a chordal start it takes three steps where damped ones take six to
  /// nineteen, because long chains of poses are stiff.
  static SolverOptions solver_options();
  /// Returns these, or damped steps for graphs with landmarks, priors, switches or calibrations:
  /// there undamped ones from a far start can end at a worse minimum, or meet poses that nothing
  /// measures.
  SolverOptions fitting_options() const;

 private:
  void add_landmarks();
  void add_switches();
  /// Adds edges that have the same besides their two poses.
  void add_edges(std::span<const PoseGraph::Edge* const> edges);
  void add_sightings(bool bearings);
  void add_priors(PoseGraph::Prior::Of of);
  void add_switch_priors();

  PoseGraph graph_;
  PoseGraphOptions options_;
  std::vector<double> position_values_, rotation_values_, landmark_values_, switch_values_;
  Problem problem_;
  Parameters positions_, rotations_, landmarks_, switches_;
};

}  // namespace topograd
