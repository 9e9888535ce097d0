// Pose graphs as problems.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"
#include "../../solver/options.hpp"
#include "pose_graph_objective.hpp"

#include <span>
#include <vector>

namespace topograd {

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
