// Models of photographs, COLMAP's and OpenMVG's, as problems of the command.
#pragma once

#include "named_problem.hpp"

#include "../../../api/formats/colmap_problem.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {

/// What --refine refines unless it is given.
std::vector<std::string> default_refine();

/// True for colmap and openmvg.
bool is_photo_model(std::string_view name);
/// The model in the folder or file ProblemArguments::file. Throws Error{InvalidArgument} without
/// it, and what reading it throws.
std::unique_ptr<NamedProblem> make_photo_model(const ProblemArguments& arguments);
/// The model and the options of its problem.
ColmapModel read_photo_model(const ProblemArguments& arguments);
ColmapOptions photo_model_options(const ProblemArguments& arguments, const ColmapModel& model);

}  // namespace topograd::command
