// The problems by name, and the options of their solves.
#include "named_problem.hpp"

#include "../../../api/formats/bal.hpp"
#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../api/formats/pose_graph_problem.hpp"
#include "../../../api/formats/pose_graph_start.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"
#include "../../problems/cloth.hpp"
#include "../../problems/developable.hpp"
#include "../../problems/mgh.hpp"
#include "../../problems/springs.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"
#include "mesh_problem.hpp"
#include "photo_model.hpp"
#include "pose_graph_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

namespace topograd::command {
namespace {

/// A problem without a mesh: Made has `problem`.
template <class Made>
class PlainProblem final : public NamedProblem {
 public:
  PlainProblem(std::unique_ptr<Made> made, SolverOptions options)
      : made_(std::move(made)), options_(std::move(options)) {}
  Problem& problem() override { return made_->problem; }
  SolverOptions options() const override { return options_; }

 private:
  std::unique_ptr<Made> made_;
  SolverOptions options_;
};

template <class Made>
std::unique_ptr<NamedProblem> plain(std::unique_ptr<Made> made,
                                    SolverOptions options = {.max_iterations = 100}) {
  return std::make_unique<PlainProblem<Made>>(std::move(made), std::move(options));
}

class ClothProblem final : public NamedProblem {
 public:
  explicit ClothProblem(std::uint32_t width) : cloth_(problems::cloth(width)) {}
  Problem& problem() override { return cloth_->problem; }
  problems::TriangleMesh mesh() const override {
    return {cloth_->positions, cloth_->start.triangles};
  }

 private:
  std::unique_ptr<problems::Cloth> cloth_;
};

class BundleProblem final : public NamedProblem {
 public:
  BundleProblem(const problems::BundleOptions& options, Share share)
      : bundle_(problems::bundle(options, share)) {}
  Problem& problem() override { return bundle_->problem; }
  void describe_answer(nlohmann::ordered_json& report) const override {
    const problems::BundleErrors errors = problems::bundle_errors(*bundle_);
    report["errors"] = {{"point_rms", errors.point_rms},
                        {"point_max", errors.point_max},
                        {"center_rms", errors.center_rms},
                        {"center_max", errors.center_max},
                        {"focal_max", errors.focal_max}};
  }

 private:
  std::unique_ptr<problems::Bundle> bundle_;
};

class BalProblem final : public NamedProblem {
 public:
  explicit BalProblem(const ProblemArguments& arguments)
      : shares_(arguments.shares),
        adjustment_(
            read_bal(input_file(arguments.file), shares_ == nullptr ? Share{} : shares_->share()),
            {.loss = parse_loss(arguments.loss),
             .fixed = arguments.fixed,
             .normalize = arguments.normalize}),
        shown_(adjustment_.scene()),
        robust_(!arguments.loss.empty()) {
    count();
    before_ = errors();
  }
  Problem& problem() override { return adjustment_.problem(); }
  problems::TriangleMesh mesh() const override { return shown_.mesh(adjustment_.scene()); }
  Shown shown() const override { return {mesh(), shown_.values(), {}}; }
  Writers writers() const override { return shares_ == nullptr ? Writers::one : Writers::all; }
  void check_out(const std::string& /*path*/) const override {}
  void write(const std::string& path) const override {
    const BundleScene scene = adjustment_.scene();
    if (shares_ == nullptr) return write_scene(path, scene);
    shares_->write(path, scene_texts(path, scene, shares_->share(), observations_));
  }
  void join_answer() override { after_ = errors(); }
  void describe_answer(nlohmann::ordered_json& report) const override {
    const ReprojectionErrors& after = after_;
    nlohmann::ordered_json& out = report["reprojection"];
    out = {{"observations", observations_},
           {"rmse", after.rmse},
           {"median", after.median},
           {"rmse_before", before_.rmse},
           {"median_before", before_.median}};
    out["worst"] = nlohmann::ordered_json::array();
    for (const ReprojectionErrors::Row& row : after.worst)
      out["worst"].push_back({{"observation", row.observation},
                              {"camera", row.camera},
                              {"point", row.point},
                              {"pixels", row.pixels}});
  }
  std::vector<std::string> answer_lines() const override;
  /// With a loss, what it leaves of the errors.
  std::string error_text(double cost) const override;
  std::string legend() const override { return "Colour: cameras are orange, points grey."; }

 private:
  /// The observations of this process among those of all.
  void count();
  /// The errors of all processes, on the first one.
  ReprojectionErrors errors() const;

  const ShareGroup* shares_;
  BundleAdjustment adjustment_;
  std::uint64_t observations_ = 0, first_ = 0;
  ReprojectionErrors before_, after_;
  ShownScene shown_;
  bool robust_;
};

class NistProblem final : public NamedProblem {
 public:
  NistProblem(const problems::NistSet& set, std::size_t start)
      : nist_(problems::nist(set, start)) {}
  Problem& problem() override { return nist_->problem; }
  std::span<const Curve> curves() const override {
    return nist_->curve ? std::span<const Curve>(&*nist_->curve, 1) : std::span<const Curve>();
  }
  SolverOptions options() const override { return nist_options(); }

 private:
  std::unique_ptr<problems::Nist> nist_;
};

class FileProblem final : public NamedProblem {
 public:
  FileProblem(const std::string& path, Share share) : file_(read_problem(path, share)) {}
  Problem& problem() override { return file_->problem; }
  const ProblemFile* file() const override { return file_.get(); }
  SolverOptions options() const override { return file_->options; }
  std::span<const Curve> curves() const override { return file_->curves; }
  void describe_answer(nlohmann::ordered_json& report) const override {
    for (const ProblemFile::Table& table : file_->tables) {
      report["csv"].push_back(
          {{"file", table.path}, {"rows", table.rows}, {"header", table.header}});
      if (table.skipped) report["csv"].back()["skipped"] = *table.skipped;
    }
  }
  std::vector<std::string> answer_lines() const override {
    std::vector<std::string> lines;
    for (const ProblemFile::Table& table : file_->tables)
      lines.push_back("Read " + table.path + ": " + std::to_string(table.rows) +
                      (table.rows == 1 ? " row" : " rows") +
                      (table.header ? ", after a row of names" : ", without a row of names") +
                      (table.skipped
                           ? ", " + std::to_string(*table.skipped) + " with missing numbers skipped"
                           : ""));
    return lines;
  }

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

const std::string& name_of(const std::string& name) { return name; }
template <class T>
const std::string& name_of(const T& item) {
  return item.name;
}

template <class T>
std::string listed(const std::vector<T>& items) {
  std::string names;
  for (const T& item : items) names += (names.empty() ? "" : ", ") + name_of(item);
  return names;
}

/// The single requested problem of a set.
template <class T>
T only(const std::string& name, std::vector<T> all) {
  if (all.size() == 1) return std::move(all.front());
  throw Error(ErrorCode::InvalidArgument, name + ": expected --set NAME, one of " + listed(all));
}

/// All elements, or only the one with this name.
template <class T>
std::vector<T> choose(std::vector<T> all, const ProblemArguments& arguments) {
  if (arguments.set.empty()) return all;
  for (T& item : all) {
    if (name_of(item) == arguments.set) return {std::move(item)};
  }
  std::vector<std::string> names;
  for (const T& item : all) names.push_back(name_of(item));
  throw Error(ErrorCode::InvalidArgument, arguments.name + ": expected --set to be one of " +
                                              listed(all) + ", got \"" + arguments.set + "\"" +
                                              did_you_mean(arguments.set, names));
}

std::string pixels(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

void BalProblem::count() {
  const std::uint64_t here = adjustment_.problem().residual_block_count();
  if (shares_ == nullptr) {
    observations_ = here;
    return;
  }
  std::uint64_t process = 0;
  for (const std::string& text : shares_->gather(std::to_string(here))) {
    const std::uint64_t count = std::stoull(text);
    if (process++ < shares_->share().number) first_ += count;
    observations_ += count;
  }
}

ReprojectionErrors BalProblem::errors() const {
  if (shares_ == nullptr) return adjustment_.errors();
  std::vector<double> worst;  // four numbers for each row
  for (const ReprojectionErrors::Row& row : adjustment_.errors().worst)
    for (const double number :
         {static_cast<double>(first_ + row.observation), static_cast<double>(row.camera),
          static_cast<double>(row.point), row.pixels})
      worst.push_back(number);
  const std::vector<double> all = shares_->gather_at_first(worst);
  std::vector<ReprojectionErrors::Row> rows;
  for (std::size_t k = 0; k < all.size(); k += 4)
    rows.push_back({static_cast<std::size_t>(all[k]), static_cast<std::uint32_t>(all[k + 1]),
                    static_cast<std::uint32_t>(all[k + 2]), all[k + 3]});
  return joined_errors(shares_->gather_at_first(adjustment_.distances()), std::move(rows));
}

std::string BalProblem::error_text(double cost) const {
  return (robust_ ? "robust RMSE " : "RMSE ") +
         pixels(std::sqrt(2 * cost / static_cast<double>(observations_))) + " px";
}

std::vector<std::string> BalProblem::answer_lines() const {
  const ReprojectionErrors& after = after_;
  std::vector<std::string> lines = {
      "Reprojection errors in pixels, " + std::to_string(observations_) + " observations",
      "  RMSE    " + pixels(after.rmse) + ", from " + pixels(before_.rmse),
      "  median  " + pixels(after.median) + ", from " + pixels(before_.median)};
  for (const ReprojectionErrors::Row& row : after.worst)
    lines.push_back("  " + pixels(row.pixels) + "  camera " + std::to_string(row.camera) +
                    ", point " + std::to_string(row.point));
  return lines;
}

}  // namespace

std::unique_ptr<ProblemFile> read_problem(const std::string& path, Share share) {
  const auto beside = [&](const std::string& name) {
    return read_text((std::filesystem::path(path).parent_path() / name).string());
  };
  return parse_problem_file(read_text(path), path, beside, share);
}

Summary NamedProblem::minimize(const SolverOptions& options) { return solve(problem(), options); }

void NamedProblem::check_out(const std::string& path) const { mesh_format(path); }

void NamedProblem::write(const std::string& path) const { write_mesh(path, mesh()); }

std::vector<problems::NistSet> read_nist_sets(const ProblemArguments& arguments) {
  if (arguments.data.empty())
    throw Error(ErrorCode::InvalidArgument, "nist: expected --data FOLDER");
  std::vector<problems::NistSet> sets;
  for (const std::string& file : problems::nist_files(arguments.data))
    sets.push_back(problems::read_nist(input_file(file)));
  return choose(std::move(sets), arguments);
}

std::vector<problems::MghProblem> mgh_rows(const ProblemArguments& arguments) {
  return choose(problems::mgh_problems(), arguments);
}

std::vector<std::string> large_mgh_rows(const ProblemArguments& arguments) {
  std::vector<std::string> names = choose(problems::large_mgh_names(), arguments);
  if (arguments.set.empty()) {
    std::erase_if(names, [&](const std::string& name) {
      return problems::largest_mgh(name) < *arguments.count;
    });
  }
  return names;
}

const std::vector<std::string>& problem_names() {
  static const std::vector<std::string> kNames = {
      "arap", "smooth", "developable", "multi",      "springs", "cloth", "bundle",
      "bal",  "colmap", "openmvg",     "pose-graph", "nist",    "mgh"};
  return kNames;
}

const std::vector<ProblemKind>& problem_kinds() {
  static const std::vector<ProblemKind> kKinds = [] {
    std::vector<ProblemKind> all;
    for (const char* name :
         {"arap", "bundle", "cloth", "developable", "multi", "smooth", "springs"})
      all.push_back({name, is_on_mesh(name), {}});
    for (const problems::MghProblem& row : problems::mgh_problems())
      all.push_back({"mgh", false, row.name});
    return all;
  }();
  return kKinds;
}

void add_problem_options(Command app, ProblemArguments& arguments, const ProblemScope& scope) {
  const std::vector<std::string>& meshes = mesh_problem_names();
  std::vector<std::string> grids = scope.on_grids, shuffled = scope.on_grids;
  grids.push_back("cloth");
  shuffled.insert(shuffled.end(), meshes.begin(), meshes.end());
  std::vector<std::string> names = problem_names();
  names.insert(names.end(), scope.also.begin(), scope.also.end());
  app.option("problem", &arguments.name, "one of these, or a problem file that ends in .json")
      .required(scope.required)
      .choices(std::move(names));
  if (scope.takes_file) {
    app.option("file", &arguments.file,
               "the problem's file, plain or packed by gzip or bzip2, or its folder")
        .only_with({"bal", "colmap", "openmvg", "pose-graph"});
  }
  app.group("The problem");
  app.option("--mesh", &arguments.mesh, "mesh file: .obj, .off, .ply or .stl, plain or packed")
      .only_with(meshes);
  app.option("--icosphere", &arguments.icosphere,
             "subdivisions of an icosahedron, instead of --mesh")
      .only_with(meshes);
  app.option("--subdivide", &arguments.subdivide,
             "times that each triangle of the mesh is cut into four")
      .range(0, 8)
      .only_with(meshes);
  app.option("--perturb", &arguments.perturb,
             "moves each coordinate of the mesh by a seeded number up to this")
      .only_with(meshes);
  app.option("--energy", &arguments.energy, "energy of a vertex")
      .choices(names_of<problems::Developability>())
      .only_with({"developable"});
  app.flag("--edges", arguments.edges, "add the lengths of edges as residuals")
      .only_with({"developable"});
  app.option("--width", &arguments.width, "vertices along a side of the grid")
      .only_with(std::move(grids));
  app.option("--shuffle", &arguments.shuffle,
             "seed of a permutation of vertices and residuals or triangles")
      .only_with(shuffled);
  app.option("--set", &arguments.set, "one problem of many, by name").only_with({"nist", "mgh"});
  app.option("--cameras", &arguments.bundle.cameras, "number of cameras").only_with({"bundle"});
  app.option("--points", &arguments.bundle.points, "number of points").only_with({"bundle"});
  app.option("--observations", &arguments.bundle.observations, "number of observations")
      .only_with({"bundle"});
  app.option("--noise", &arguments.noise,
             "standard deviation of observations in pixels, or noise of the mesh as a share of its "
             "size")
      .shown_default("0; smooth --icosphere: 0.01")
      .only_with({"smooth", "bundle"});
  app.option(
         "--handles", &arguments.handles,
         "file of targets, with the line NUMBER x y z for each vertex that has one, such as \"12 "
         "0 1.5 -2\"; vertices count from 0")
      .only_with({"arap"});
  app.option("--fix", &arguments.fixed,
             "what stays as it is: rotation, translation, f, k1, k2 (k2=0 sets it first), cameras "
             "or points")
      .delimiter(',')
      .only_with({"bal"});
  app.option("--loss", &arguments.loss, "robust loss of an observation or edge, such as huber:1")
      .only_with({"bal", "colmap", "openmvg", "pose-graph"});
  const std::vector<std::string> models = {"colmap", "openmvg"};
  arguments.refine = default_refine();
  app.option("--refine", &arguments.refine,
             "what is refined: focal, principal, distortion, poses, rigs or points")
      .delimiter(',')
      .shown_default("focal,distortion,poses,rigs,points")
      .only_with(models);
  app.option("--retriangulate", &arguments.retriangulate,
             "where points go that have a lower minimum of their own at the end of a solve, which "
             "then goes on")
      .choices(names_of<Retriangulation>())
      .only_with(models);
  app.option("--gauge", &arguments.gauge, "what fixes the coordinates of the model")
      .choices(names_of<ColmapGauge>())
      .only_with(models);
  app.option("--priors", &arguments.priors,
             "file of measured positions, with the line \"IMAGE x y z\" for each, and standard "
             "deviations or a covariance behind it")
      .only_with(models);
  app.option("--prior-loss", &arguments.prior_loss, "robust loss of a prior, such as huber:1")
      .only_with(models);
  app.flag("--normalize", arguments.normalize,
           "solve with the points moved around 0 and scaled; the answer is scaled back")
      .only_with({"bal"});
  const std::vector<std::string> graphs = {"pose-graph"};
  std::vector<std::string> strict = meshes;
  strict.insert(strict.end(), graphs.begin(), graphs.end());
  app.option("--objective", &arguments.objective,
             "what is minimised: SE-Sync's sum, that of Ceres' examples, or eᵀ Ω e")
      .choices(names_of<PoseObjective>())
      .only_with(graphs);
  app.option("--start", &arguments.start, "where the solve begins")
      .choices(names_of<PoseStart>())
      .only_with(graphs);
  app.flag("--gnc", arguments.gnc, "first reject false loop closures by graduated non-convexity")
      .only_with(graphs);
  app.option("--gnc-threshold", &arguments.gnc_threshold,
             "what an edge may add to the objective before --gnc rejects it")
      .only_with(graphs);
  app.flag("--strict", arguments.strict,
           "refuse graphs in several pieces, with edges that are there twice or with vertices for "
           "some poses alone, and meshes that are not manifold")
      .only_with(strict);
  app.flag("--skip-unknown", arguments.skip_unknown, "pass over lines with unknown tags")
      .only_with(graphs);
}

void add_data_option(Command app, ProblemArguments& arguments) {
  app.option("--data", &arguments.data, "folder of files *.dat, or one of them")
      .only_with({"nist"});
}

void add_generator_options(Command app, ProblemArguments& arguments) {
  app.option("--count", &arguments.count, "unknowns of the problems that have any number of them")
      .only_with({"mgh"});
  app.option("--seed", &arguments.bundle.seed, "seed of the scene, or of the starts")
      .only_with({"bundle", "ik"});
}

SolverOptions nist_options() {
  constexpr double kTight = std::numeric_limits<double>::epsilon();
  return {.max_iterations = 10'000,
          .function_tolerance = kTight,
          .gradient_tolerance = kTight,
          .parameter_tolerance = kTight};
}

std::unique_ptr<NamedProblem> make_nist(const problems::NistSet& set, std::size_t start) {
  return timed([&] { return std::make_unique<NistProblem>(set, start); });
}

problems::BundleOptions bundle_options(const ProblemArguments& arguments) {
  problems::BundleOptions options = arguments.bundle;
  options.noise = arguments.noise.value_or(0);
  return options;
}

bool can_share(const ProblemArguments& arguments) {
  constexpr std::array kNames = {"springs", "bundle", "bal", "arap", "smooth", "developable"};
  if (arguments.name == "pose-graph") return !arguments.gnc;
  return arguments.name.ends_with(".json") ||
         std::ranges::find(kNames, arguments.name) != kNames.end();
}

std::unique_ptr<NamedProblem> make_problem(const ProblemArguments& arguments) {
  const Share share = arguments.shares == nullptr ? Share{} : arguments.shares->share();
  if (arguments.name == "springs") {
    return timed(
        [&] { return plain(problems::springs(arguments.width, arguments.shuffle, share)); });
  }
  if (arguments.name == "cloth")
    return timed([&] { return std::make_unique<ClothProblem>(arguments.width); });
  if (arguments.name == "nist") {
    return make_nist(only("nist", read_nist_sets(arguments)), 0);
  }
  if (arguments.name == "bundle") {
    return timed([&] { return std::make_unique<BundleProblem>(bundle_options(arguments), share); });
  }
  if (arguments.name == "bal") {
    if (arguments.file.empty()) throw Error(ErrorCode::InvalidArgument, "bal: expected a file");
    return timed([&] { return std::make_unique<BalProblem>(arguments); });
  }
  if (is_photo_model(arguments.name)) return timed([&] { return make_photo_model(arguments); });
  if (arguments.name == "pose-graph") return timed([&] { return make_pose_graph(arguments); });
  if (arguments.name == "mgh" && arguments.count) {
    const std::string name = only("mgh", large_mgh_rows(arguments));
    return timed([&] {
      return plain(problems::large_mgh(name, *arguments.count),
                   {.max_iterations = nist_options().max_iterations});
    });
  }
  if (arguments.name == "mgh") {
    const problems::MghProblem row = only("mgh", mgh_rows(arguments));
    return timed([&] { return plain(problems::mgh(row), nist_options()); });
  }
  if (is_on_mesh(arguments.name)) {
    ProblemMesh mesh = read_problem_mesh(arguments);
    return timed([&] { return make_on_mesh(std::move(mesh), arguments); });
  }
  if (arguments.name.ends_with(".json")) {
    return timed([&] { return std::make_unique<FileProblem>(arguments.name, share); });
  }
  throw Error(ErrorCode::InvalidArgument, "expected the problem " + listed(problem_names()) +
                                              " or a file that ends in .json, got \"" +
                                              arguments.name + "\"" +
                                              did_you_mean(arguments.name, problem_names()));
}

SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named) {
  return to_options(arguments, named.options());
}

}  // namespace topograd::command
