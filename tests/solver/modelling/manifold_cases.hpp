// Problems with blocks on manifolds.
#pragma once

#include "../loop/step_walk.hpp"

#include <memory>

namespace topograd::test {

/// Poses around a loop, each observed from the two before it, the first fixed: a rotation, a
/// position and an axis of a camera (a unit vector) that is seen from both sides.
std::unique_ptr<OwnedProblem> pose_graph();

/// Points that repel their neighbours on spheres of different sizes, some free and some fixed,
/// pairs on circles, rotations by axis and angle, and a product.
std::unique_ptr<OwnedProblem> mixture();

/// The pose graph in a room: positions may not pass walls; some start on one.
std::unique_ptr<OwnedProblem> room();

/// Expects that rotations which start at angles of half a turn and more reach the one that takes
/// three vectors to where they were turned, alone and as part of a product.
void expect_long_turns_end_at_the_target(const SolverOptions& options);

}  // namespace topograd::test
