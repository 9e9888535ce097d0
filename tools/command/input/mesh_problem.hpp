// Problems on meshes.
#pragma once

#include "named_problem.hpp"

#include "../../../api/formats/mesh/mesh.hpp"

#include <memory>
#include <string>
#include <vector>

namespace topograd::command {

/// Names of the problems on meshes.
const std::vector<std::string>& mesh_problem_names();
bool is_on_mesh(const std::string& name);

/// A mesh, and what was odd in its file.
struct ProblemMesh {
  TriangleMesh mesh;
  MeshNotes notes;
};
/// The mesh selected by --mesh, --icosphere, --subdivide, --perturb and --shuffle. Throws
/// Error{InvalidArgument} for a missing option, and what reading a mesh throws.
ProblemMesh read_problem_mesh(const ProblemArguments& arguments);

/// A problem of mesh_problem_names(). Throws what making it throws.
std::unique_ptr<NamedProblem> make_on_mesh(ProblemMesh mesh, const ProblemArguments& arguments);

}  // namespace topograd::command
