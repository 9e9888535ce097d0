// Objectives of pose graphs, and how well poses agree with measurements.
#pragma once

#include "../../ir/enum_table.hpp"
#include "pose_graph.hpp"

#include <string_view>
#include <vector>

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
enum class PoseObjective { chordal, geodesic, chi2 };
TG_ENUM_NAMES(PoseObjective)
/// Throws Error{InvalidArgument} that lists the names.
inline PoseObjective parse_pose_objective(std::string_view text) {
  return parse_enum<PoseObjective>("objective", text);
}

/// How well poses agree with measurements, without losses.
struct PoseGraphErrors {
  std::vector<double> edges;  ///< what each edge adds to the objective
  double objective = 0;       ///< their sum
  double chi2 = 0;            ///< Σ eᵀ Ω e, whatever the objective
};
/// Throws Error{InvalidArgument} for the objective geodesic and an information matrix that is not
/// positive definite. Cost: linear in the edges.
PoseGraphErrors pose_graph_errors(const PoseGraph& graph, PoseObjective objective);

}  // namespace topograd
