// Problems on meshes: arap, smooth, developable and multi.
#include "mesh_problem.hpp"

#include "../../problems/arap.hpp"
#include "../../problems/developable.hpp"
#include "../../problems/multi.hpp"
#include "../../problems/smooth.hpp"

#include "../../../ir/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace topograd::command {
namespace {

constexpr std::uint64_t kPerturbSeed = 1;

/// Made has `positions` and `problem`.
template <class Made>
class MeshProblem : public NamedProblem {
 public:
  template <class Make>
  MeshProblem(ProblemMesh mesh, Make make) : mesh_(std::move(mesh)), made_(make(mesh_.mesh)) {}

  Problem& problem() override { return made_->problem; }
  TriangleMesh mesh() const override { return {made_->positions, mesh_.mesh.triangles}; }
  void describe_answer(nlohmann::ordered_json& report) const override {
    report["mesh"] = {{"vertices", mesh_.mesh.vertex_count()},
                      {"triangles", mesh_.mesh.triangles.size()},
                      {"edges_not_manifold", mesh_.notes.edges},
                      {"vertices_not_manifold", mesh_.notes.vertices},
                      {"notes", mesh_.notes.sentences}};
  }
  std::vector<std::string> answer_lines() const override {
    std::vector<std::string> lines = mesh_.notes.sentences;
    const std::size_t all = mesh_.notes.edges + mesh_.notes.vertices;
    if (all > lines.size())
      lines.push_back("and " + std::to_string(all - lines.size()) +
                      " more edges and vertices that are not manifold");
    return lines;
  }

 private:
  ProblemMesh mesh_;
  std::unique_ptr<Made> made_;
};

/// developable: pictures show the energies of the stars.
class DevelopableProblem final : public MeshProblem<problems::Developable> {
 public:
  DevelopableProblem(ProblemMesh mesh, problems::Developability energy, bool edges, Share share)
      : MeshProblem(std::move(mesh),
                    [&](const TriangleMesh& start) {
                      return problems::developable(start, energy, edges, share);
                    }),
        energy_(energy) {}
  Shown shown() const override {
    problems::TriangleMesh at = mesh();
    std::vector<double> energies = problems::star_energies(at, energy_);
    return {std::move(at), std::move(energies), {}};
  }
  std::string legend() const override {
    return "Colour: the energy of a vertex star, as a share of the largest one before.";
  }

 private:
  problems::Developability energy_;
};

/// The hinge energy has no meaning where triangles are not a fan.
bool expects_manifold(const ProblemArguments& arguments) {
  return arguments.strict ||
         (arguments.name == "developable" &&
          problems::parse_developability(arguments.energy) == problems::Developability::hinge);
}

}  // namespace

const std::vector<std::string>& mesh_problem_names() {
  static const std::vector<std::string> kNames = {"arap", "smooth", "developable", "multi"};
  return kNames;
}

bool is_on_mesh(const std::string& name) {
  return std::ranges::find(mesh_problem_names(), name) != mesh_problem_names().end();
}

ProblemMesh read_problem_mesh(const ProblemArguments& arguments) {
  if (arguments.mesh.empty() == !arguments.icosphere) {
    throw Error(ErrorCode::InvalidArgument,
                arguments.name + (arguments.icosphere ? ": expected --mesh or --icosphere, got both"
                                                      : ": expected --mesh FILE or --icosphere K"));
  }
  ProblemMesh out;
  if (arguments.icosphere) {
    out.mesh = problems::icosphere(*arguments.icosphere);
  } else {
    out.mesh = read_mesh(arguments.mesh, {.strict = expects_manifold(arguments)}, &out.notes);
  }
  for (std::uint32_t k = 0; k < arguments.subdivide; ++k) out.mesh = problems::subdivide(out.mesh);
  if (arguments.perturb != 0)
    problems::perturb(out.mesh.positions, arguments.perturb, kPerturbSeed);
  if (arguments.shuffle) out.mesh = problems::shuffle(out.mesh, *arguments.shuffle);
  return out;
}

std::unique_ptr<NamedProblem> make_on_mesh(ProblemMesh mesh, const ProblemArguments& arguments) {
  const Share share = arguments.shares == nullptr ? Share{} : arguments.shares->share();
  const auto make = [&]<class Made>(std::unique_ptr<Made> (*build)(const TriangleMesh&, Share)) {
    return std::make_unique<MeshProblem<Made>>(
        std::move(mesh), [&](const TriangleMesh& start) { return build(start, share); });
  };
  if (arguments.name == "arap") return make(&problems::arap);
  if (arguments.name == "smooth") return make(&problems::smooth);
  if (arguments.name == "multi")
    return std::make_unique<MeshProblem<problems::Multi>>(std::move(mesh), &problems::multi);
  return std::make_unique<DevelopableProblem>(
      std::move(mesh), problems::parse_developability(arguments.energy), arguments.edges, share);
}

}  // namespace topograd::command
