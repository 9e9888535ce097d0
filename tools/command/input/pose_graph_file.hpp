// Pose graphs of g2o files as problems of the command.
#pragma once

#include "named_problem.hpp"

#include <memory>

namespace topograd::command {

/// The graph of ProblemArguments::file. Throws Error{InvalidArgument} without a file, and what
/// reading it throws.
std::unique_ptr<NamedProblem> make_pose_graph(const ProblemArguments& arguments);

}  // namespace topograd::command
