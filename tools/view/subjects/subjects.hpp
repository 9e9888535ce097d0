// The reference problems and files that can be pulled at.
#pragma once

#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../../api/problem_file.hpp"
#include "../../../view/live/subject.hpp"
#include "../../problems/arap.hpp"
#include "../../problems/developable.hpp"
#include "../../problems/smooth.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd::view {

/// arap(mesh) with its pins as two handles, so that its minimum is that of problems::arap(): handle
/// 1 has the vertices that stay, handle 2 those that are moved; without `pins` the lowest and the
/// highest vertices. Throws what problems::arap() throws.
Subject arap_subject(const problems::TriangleMesh& mesh);
Subject arap_subject(const problems::TriangleMesh& mesh, const std::vector<problems::Pin>& pins);

/// smooth(mesh), with weights of its fit and of its edges. Throws what problems::smooth() throws.
Subject smooth_subject(const problems::TriangleMesh& mesh,
                       double noise = problems::kReferenceNoise);

/// The energy of developable(mesh), and lengths of edges with a weight, so that the surface folds
/// where it is pulled. Solved by L-BFGS. Throws what problems::developable() throws.
Subject developable_subject(const problems::TriangleMesh& mesh, problems::Developability energy);

/// springs(width), drawn as a cloth. Throws what problems::springs() throws.
Subject springs_subject(std::uint32_t width);

/// The points of a scene, and after them the centres of its cameras, which follow. Points
/// far outside are shown at the border of a box. Throws what BundleAdjustment throws.
Subject bundle_subject(BundleScene scene, const BundleAdjustmentOptions& options = {});

/// The poses of a graph in the plane or in space, and its edges as lines. Throws what
/// PoseGraphProblem throws.
Subject pose_graph_subject(PoseGraph graph, const PoseGraphOptions& options);

/// One array of a problem file, by its Axes, and lines between points that a residual block joins.
///
///   array  name of the array; empty: the first one with blocks of three numbers, else of two, else
///          the one with the most blocks
///
/// Throws Error{InvalidArgument} for an unknown name. Cost: one pass over the residual blocks.
Subject file_subject(std::unique_ptr<ProblemFile> file, const std::string& array);

}  // namespace topograd::view
