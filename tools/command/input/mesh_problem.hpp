// Problems on meshes.
#pragma once

#include "named_problem.hpp"

#include "../../problems/arap.hpp"

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

/// The targets of arap: those of --handles, or the problem's own.
std::vector<problems::Pin> arap_pins(const ProblemArguments& arguments, const TriangleMesh& mesh);
/// The noise of smooth: --noise, or without it none for a file and that of the reference problem
/// for --icosphere.
double smooth_noise(const ProblemArguments& arguments);

/// A problem of mesh_problem_names(). Throws what making it throws.
std::unique_ptr<NamedProblem> make_on_mesh(ProblemMesh mesh, const ProblemArguments& arguments);

}  // namespace topograd::command
