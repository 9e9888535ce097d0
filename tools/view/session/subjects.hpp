// The reference problems and files that can be pulled at.
#pragma once

#include "../../../api/formats/bundle_scene.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../problems/developable.hpp"
#include "subject.hpp"

#include <cstdint>

namespace topograd::view {

/// arap(mesh) with its pins as two handles, so that its minimum is that of problems::arap(): handle
/// 1 has the lowest vertices, handle 2 the highest, which are moved. Throws what problems::arap()
/// throws.
Subject arap_subject(const problems::TriangleMesh& mesh);

/// smooth(mesh), with weights of its fit and of its edges. Throws what problems::smooth() throws.
Subject smooth_subject(const problems::TriangleMesh& mesh);

/// The energy of developable(mesh), and lengths of edges with a weight, so that the surface folds
/// where it is pulled. Solved by L-BFGS. Throws what problems::developable() throws.
Subject developable_subject(const problems::TriangleMesh& mesh, problems::Developability energy);

/// springs(width), drawn as a cloth. Throws what problems::springs() throws.
Subject springs_subject(std::uint32_t width);

/// The points of a scene, and after them the centres of its cameras, which follow. Points
/// far outside are shown at the border of a box. Throws what BundleAdjustment throws.
Subject bundle_subject(BundleScene scene);

/// The poses of a graph in space, and its edges as lines. Throws Error{Unsupported} for a graph in
/// the plane, and what PoseGraphProblem throws.
Subject pose_graph_subject(PoseGraph graph, const PoseGraphOptions& options);

}  // namespace topograd::view
