// COLMAP's models as problems of the command.
#pragma once

#include "named_problem.hpp"

#include "../../../api/formats/colmap_problem.hpp"

#include <memory>
#include <string>
#include <vector>

namespace topograd::command {

/// What --refine refines unless it is given.
std::vector<std::string> default_refine();

/// The model in the folder ProblemArguments::file. Throws Error{InvalidArgument} without a folder,
/// and what reading it throws.
std::unique_ptr<NamedProblem> make_colmap(const ProblemArguments& arguments);
/// The model and the options of its problem.
ColmapModel read_colmap_model(const ProblemArguments& arguments);
ColmapOptions colmap_options(const ProblemArguments& arguments, const ColmapModel& model);

}  // namespace topograd::command
