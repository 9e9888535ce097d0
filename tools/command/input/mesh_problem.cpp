// Problems on meshes: arap, smooth, developable and multi.
#include "mesh_problem.hpp"

#include "../../problems/developable.hpp"
#include "../../problems/smooth.hpp"
#include "../arguments/output.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace topograd::command {
namespace {

constexpr std::uint64_t kPerturbSeed = 1;

/// What a problem does to its mesh.
struct MeshFacts {
  std::string first_line;
  std::optional<std::size_t> handles;  ///< arap: vertices with targets
  std::optional<double> noise;         ///< smooth
};

/// Made has `positions` and `problem`.
template <class Made>
class MeshProblem : public NamedProblem {
 public:
  template <class Make>
  MeshProblem(ProblemMesh mesh, Make make, MeshFacts facts = {})
      : mesh_(std::move(mesh)), made_(make(mesh_.mesh)), facts_(std::move(facts)) {}

  Problem& problem() override { return made_->problem; }
  TriangleMesh mesh() const override { return {made_->positions, mesh_.mesh.triangles}; }
  void describe_answer(nlohmann::ordered_json& report) const override {
    report["mesh"] = {{"vertices", mesh_.mesh.vertex_count()},
                      {"triangles", mesh_.mesh.triangles.size()},
                      {"edges_not_manifold", mesh_.notes.edges},
                      {"vertices_not_manifold", mesh_.notes.vertices},
                      {"notes", mesh_.notes.sentences},
                      {"degenerate", mesh_.notes.degenerate},
                      {"skipped", nlohmann::ordered_json::array()}};
    for (const MeshNotes::Skipped& skipped : mesh_.notes.skipped)
      report["mesh"]["skipped"].push_back({{"tag", skipped.tag}, {"lines", skipped.lines}});
    if (facts_.handles) report["mesh"]["handles"] = *facts_.handles;
    if (facts_.noise) report["mesh"]["noise"] = *facts_.noise;
  }
  std::string first_line() const override { return facts_.first_line; }
  std::vector<std::string> answer_lines() const override {
    std::vector<std::string> lines = mesh_.notes.sentences;
    const std::size_t all = mesh_.notes.edges + mesh_.notes.vertices;
    if (all > lines.size())
      lines.push_back("and " + std::to_string(all - lines.size()) +
                      " more edges and vertices that are not manifold");
    if (mesh_.notes.degenerate > 0)
      lines.push_back(
          std::to_string(mesh_.notes.degenerate) +
          (mesh_.notes.degenerate == 1 ? " triangle" : " triangles") +
          " with one vertex twice dropped; the first: " + mesh_.notes.degenerate_sentence);
    for (const MeshNotes::Skipped& skipped : mesh_.notes.skipped)
      lines.push_back("skipped: " + std::to_string(skipped.lines) +
                      (skipped.lines == 1 ? " line of " : " lines of ") + skipped.tag);
    return lines;
  }

 private:
  ProblemMesh mesh_;
  std::unique_ptr<Made> made_;
  MeshFacts facts_;
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

std::unique_ptr<NamedProblem> make_arap(ProblemMesh mesh, const ProblemArguments& arguments,
                                        Share share) {
  const std::vector<problems::Pin> pins = arap_pins(arguments, mesh.mesh);
  const std::string count = std::to_string(pins.size());
  const std::string line =
      arguments.handles.empty()
          ? "arap keeps the lowest 5 % of the mesh (in y) in place and lifts the highest 5 % by "
            "half its height (in z), " +
                count + " vertices; --handles FILE sets targets of your own"
          : "arap moves " + count + (pins.size() == 1 ? " vertex" : " vertices") +
                " to the targets of " + arguments.handles;
  return std::make_unique<MeshProblem<problems::Arap>>(
      std::move(mesh),
      [&](const TriangleMesh& start) { return problems::arap(start, pins, share); },
      MeshFacts{.first_line = line, .handles = pins.size(), .noise = {}});
}

std::unique_ptr<NamedProblem> make_smooth(ProblemMesh mesh, const ProblemArguments& arguments,
                                          Share share) {
  const double noise = smooth_noise(arguments);
  std::string line;
  if (noise > 0)
    line = "smooth adds noise of up to " + ir::print_number(noise) +
           " times its diagonal to the mesh; --noise 0 turns it off";
  return std::make_unique<MeshProblem<problems::Smooth>>(
      std::move(mesh),
      [&](const TriangleMesh& start) { return problems::smooth(start, share, noise); },
      MeshFacts{.first_line = line, .handles = {}, .noise = noise});
}

std::unique_ptr<NamedProblem> make(ProblemMesh mesh, const ProblemArguments& arguments) {
  const Share share = arguments.shares == nullptr ? Share{} : arguments.shares->share();
  if (arguments.name == "arap") return make_arap(std::move(mesh), arguments, share);
  if (arguments.name == "smooth") return make_smooth(std::move(mesh), arguments, share);
  if (arguments.name == "multi")
    return std::make_unique<MeshProblem<problems::Multi>>(std::move(mesh), &problems::multi);
  return std::make_unique<DevelopableProblem>(
      std::move(mesh), problems::parse_developability(arguments.energy), arguments.edges, share);
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
    out.mesh =
        read_mesh(input_file(arguments.mesh), {.strict = expects_manifold(arguments)}, &out.notes);
  }
  for (std::uint32_t k = 0; k < arguments.subdivide; ++k) out.mesh = problems::subdivide(out.mesh);
  if (arguments.perturb != 0)
    problems::perturb(out.mesh.positions, arguments.perturb, kPerturbSeed);
  if (arguments.shuffle) out.mesh = problems::shuffle(out.mesh, *arguments.shuffle);
  return out;
}

std::vector<problems::Pin> arap_pins(const ProblemArguments& arguments, const TriangleMesh& mesh) {
  return arguments.handles.empty() ? problems::arap_pins(mesh)
                                   : problems::read_pins(arguments.handles, mesh.vertex_count());
}

double smooth_noise(const ProblemArguments& arguments) {
  return arguments.noise.value_or(arguments.mesh.empty() ? problems::kReferenceNoise : 0);
}

std::unique_ptr<NamedProblem> make_on_mesh(ProblemMesh mesh, const ProblemArguments& arguments) {
  try {
    return make(std::move(mesh), arguments);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument || arguments.mesh.empty()) throw;
    throw Error(error.code(), arguments.mesh + ": " + error.what());
  }
}

}  // namespace topograd::command
