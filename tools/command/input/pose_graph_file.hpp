// Pose graphs of g2o files as problems of the command.
#pragma once

#include "named_problem.hpp"

#include "../../../api/formats/pose_graph_problem.hpp"

#include <memory>

namespace topograd::command {

/// The graph of ProblemArguments::file. Throws Error{InvalidArgument} without a file, and what
/// reading it throws.
std::unique_ptr<NamedProblem> make_pose_graph(const ProblemArguments& arguments);
/// The poses from which its solve begins, and its edges without rejected ones.
PoseGraph pose_graph_at_start(const ProblemArguments& arguments);

}  // namespace topograd::command
