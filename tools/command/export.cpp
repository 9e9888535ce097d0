// topograd export web: a problem as static files that solve themselves in a browser.
#include "arguments/commands.hpp"
#include "input/named_problem.hpp"

#include "../../api/export_web.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

struct ExportArguments {
  ProblemArguments problem;
  SolverArguments solver;  ///< method, limits and fields by name
  std::string out;
  bool page = false;
  bool f32 = false;
};

/// The triangles of the mesh, if the problem's first array has the positions of its vertices.
std::vector<std::array<std::uint32_t, 3>> faces_of(NamedProblem& named) {
  const problems::TriangleMesh mesh = named.mesh();
  const auto arrays = named.problem().arrays();
  if (arrays.empty() || arrays[0].width != 3 || arrays[0].blocks != mesh.vertex_count()) return {};
  std::vector<std::array<std::uint32_t, 3>> faces;
  for (const auto& triangle : mesh.triangles)
    faces.push_back({triangle[0], triangle[1], triangle[2]});
  return faces;
}

std::string title_of(const NamedProblem& named, const ProblemArguments& arguments) {
  if (named.file() != nullptr && !named.file()->title.empty()) return named.file()->title;
  if (!arguments.set.empty()) return arguments.name + " " + arguments.set;
  const std::string& from = arguments.file.empty() ? arguments.mesh : arguments.file;
  const std::string name = std::filesystem::path(arguments.name).stem();
  const std::string file = std::filesystem::path(from).stem();
  return file.empty() ? name : name + " " + file;
}

void export_to_web(const ExportArguments& arguments) {
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  WebExportOptions options{.name = title_of(*named, arguments.problem),
                           .solver = to_options(arguments.solver, named->options())};
  options.page = arguments.page;
  options.f32 = arguments.f32;
  options.faces = faces_of(*named);
  const WebExport done = export_web(named->problem(), options, arguments.out);
  std::cout << arguments.out << ": " << done.files.size() << " files, " << (done.bytes + 999) / 1000
            << " kB\n";
  if (arguments.page) {
    std::cout << "python3 -m http.server --directory '" << arguments.out
              << "'   # then open http://localhost:8000\n";
  }
}

}  // namespace

void add_export(Command app) {
  Command command = app.subcommand("export", "Writes a problem for machines without Topograd");
  command.require_subcommand();
  auto arguments = std::make_shared<ExportArguments>();
  Command web = command.subcommand(
      "web", "Static files that solve the problem in a browser or in Node, with JavaScript");
  add_problem_options(web, arguments->problem);
  add_data_option(web, arguments->problem);
  add_generator_options(web, arguments->problem);
  web.group("The method");
  web.option("--method", &arguments->solver.method,
             "how solves take steps; the last two with energies")
      .choices({"levenberg_marquardt", "gauss_newton", "newton", "lbfgs"})
      .shown_default("levenberg_marquardt; lbfgs with energies");
  add_limit_options(web, arguments->solver);
  web.group("What is written");
  web.option("--out", &arguments->out, "folder; it is made if it is not there").required();
  web.flag("--page", arguments->page, "also index.html, which shows the problem and solves it");
  web.flag("--f32", arguments->f32,
           "also kernels with which WebGPU takes whole steps in single precision");
  web.callback([arguments] { export_to_web(*arguments); });
}

}  // namespace topograd::command
