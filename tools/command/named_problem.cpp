// Making problems by name.
#include "command/named_problem.hpp"

#include "command/mesh_file.hpp"
#include "problems/arap.hpp"
#include "problems/springs.hpp"

#include <topograd/ir/error.hpp>

#include <chrono>

namespace topograd::command {
namespace {

class ArapProblem final : public NamedProblem {
 public:
  explicit ArapProblem(problems::TriangleMesh mesh)
      : mesh_(std::move(mesh)), arap_(problems::arap(mesh_)) {}
  Problem& problem() override { return arap_->problem; }
  problems::TriangleMesh mesh() const override { return {arap_->positions, mesh_.triangles}; }

 private:
  problems::TriangleMesh mesh_;
  std::unique_ptr<problems::Arap> arap_;
};

class SpringsProblem final : public NamedProblem {
 public:
  explicit SpringsProblem(const ProblemArguments& arguments)
      : springs_(problems::springs(arguments.width, arguments.shuffle)) {}
  Problem& problem() override { return springs_->problem; }

 private:
  std::unique_ptr<problems::Springs> springs_;
};

class FileProblem final : public NamedProblem {
 public:
  explicit FileProblem(const std::string& path) : file_(read_problem_file(path)) {}
  Problem& problem() override { return file_->problem; }
  const ProblemFile* file() const override { return file_.get(); }

 private:
  std::unique_ptr<ProblemFile> file_;
};

template <class Make>
std::unique_ptr<NamedProblem> timed(Make make) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<NamedProblem> made = make();
  made->build_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return made;
}

}  // namespace

void add_problem_options(CLI::App& app, ProblemArguments& arguments, bool required) {
  app.add_option("problem", arguments.name, "arap, springs or a problem file that ends in .json")
      ->required(required);
  app.add_option("--mesh", arguments.mesh, "OBJ file (arap)");
  app.add_option("--width", arguments.width, "vertices along a side (springs)");
  app.add_option("--shuffle", arguments.shuffle,
                 "seed of a permutation of vertices and residuals (springs)");
}

std::unique_ptr<NamedProblem> make_problem(const ProblemArguments& arguments) {
  if (arguments.name == "springs") {
    return timed([&] { return std::make_unique<SpringsProblem>(arguments); });
  }
  if (arguments.name == "arap") {
    if (arguments.mesh.empty()) {
      throw Error(ErrorCode::InvalidArgument, "arap: expected --mesh FILE.obj");
    }
    problems::TriangleMesh mesh = read_mesh(arguments.mesh);
    return timed([&] { return std::make_unique<ArapProblem>(std::move(mesh)); });
  }
  if (arguments.name.ends_with(".json")) {
    return timed([&] { return std::make_unique<FileProblem>(arguments.name); });
  }
  throw Error(ErrorCode::InvalidArgument,
              "expected the problem arap, springs or a file that ends in .json, got \"" +
                  arguments.name + "\"");
}

}  // namespace topograd::command
