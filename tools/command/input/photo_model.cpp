// Models of photographs as problems of the command, and scenes as meshes for pictures.
#include "photo_model.hpp"

#include "../../../api/formats/openmvg.hpp"
#include "../../../api/formats/packed_text.hpp"
#include "../../../ir/error.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <span>
#include <utility>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string count(std::size_t number, const std::string& one) {
  return std::to_string(number) + " " + one + (number == 1 ? "" : "s");
}

std::string without_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

/// Distances between what was seen and where the model says it is, in pixels.
struct PixelErrors {
  struct Row {
    std::uint32_t image = 0;  ///< id
    std::uint64_t point = 0;  ///< id
    double pixels = 0;
  };
  double rmse = 0, median = 0, mean = 0;
  std::vector<Row> worst;  ///< descending
};

PixelErrors pixel_errors(const ColmapModel& model) {
  std::vector<double> distances = model.distances();
  PixelErrors out;
  if (distances.empty()) return out;
  out.mean = std::accumulate(distances.begin(), distances.end(), 0.0) /
             static_cast<double>(distances.size());
  std::vector<ReprojectionErrors::Row> rows;
  rows.reserve(distances.size());
  for (std::size_t k = 0; k < distances.size(); ++k)
    rows.push_back({k, model.observations[k].image, model.observations[k].point, distances[k]});
  const ReprojectionErrors all = joined_errors(std::move(distances), std::move(rows));
  out.rmse = all.rmse;
  out.median = all.median;
  for (const ReprojectionErrors::Row& row : all.worst)
    out.worst.push_back({model.images[row.camera].id, model.point_ids[row.point], row.pixels});
  return out;
}

/// Names of the camera models, and how many cameras have them.
ordered_json camera_models(const ColmapModel& model) {
  std::array<std::size_t, kCountOf<CameraModel>> counts{};
  for (const ColmapModel::Camera& camera : model.cameras)
    ++counts[static_cast<std::size_t>(camera.model)];
  ordered_json out = ordered_json::object();
  for (std::size_t k = 0; k < counts.size(); ++k)
    if (counts[k] > 0) out[std::string(name(static_cast<CameraModel>(k)))] = counts[k];
  return out;
}

/// What a model was read from, for the answer.
class PhotoSource {
 public:
  virtual ~PhotoSource() = default;
  /// "COLMAP model".
  virtual std::string kind() const = 0;
  /// What it says of itself, for reports.
  virtual ordered_json facts() const { return ordered_json::object(); }
  virtual void check_out(const std::string& path) const = 0;
  virtual void write(const std::string& path, const ColmapModel& model) const = 0;
};

class ColmapFolder final : public PhotoSource {
 public:
  ColmapFolder(std::string folder, std::shared_ptr<const ColmapFiles> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}
  std::string kind() const override { return "COLMAP model"; }
  ordered_json facts() const override { return {{"binary", files_->binary}}; }
  void check_out(const std::string& path) const override;
  void write(const std::string& path, const ColmapModel& model) const override {
    write_colmap(without_slashes(path), model);
  }

 private:
  std::string folder_;
  std::shared_ptr<const ColmapFiles> files_;
};

class OpenMvgSource final : public PhotoSource {
 public:
  explicit OpenMvgSource(std::shared_ptr<const OpenMvgFile> file) : file_(std::move(file)) {}
  std::string kind() const override { return "OpenMVG scene"; }
  void check_out(const std::string& path) const override {
    if (!path.ends_with(".json"))
      throw Error(ErrorCode::InvalidArgument,
                  "--out: expected a file that ends in .json, as OpenMVG reads, got " + path);
  }
  void write(const std::string& path, const ColmapModel& model) const override {
    write_text_file(path, openmvg_text(model, *file_));
  }

 private:
  std::shared_ptr<const OpenMvgFile> file_;
};

ordered_json facts_of(const PhotoSource& source, const ColmapModel& model,
                      const ColmapOptions& options) {
  ordered_json facts = source.facts();
  facts.update({{"cameras", model.cameras.size()},
                {"models", camera_models(model)},
                {"images", model.images.size()},
                {"frames", model.frames.size()},
                {"sensors", model.sensors.size()},
                {"points", model.point_count()},
                {"tracks_differ", model.tracks_differ},
                {"refine", options.refine}});
  return facts;
}

class PhotoModel final : public NamedProblem {
 public:
  PhotoModel(ColmapModel model, std::unique_ptr<PhotoSource> source,
             const ProblemArguments& arguments, const ColmapOptions& options)
      : name_(arguments.name),
        source_(std::move(source)),
        observations_(model.observations.size()),
        before_(pixel_errors(model)),
        facts_(facts_of(*source_, model, options)),
        problem_(std::move(model), options),
        shown_(shown_scene(problem_.model())),
        robust_(!arguments.loss.empty()) {
    facts_["gauge"] = name(problem_.gauge());
    facts_["priors"] = problem_.priors().size();
    facts_["aligned"] = problem_.aligned();
  }

  Problem& problem() override { return problem_.problem(); }
  SolverOptions options() const override { return problem_.solver_options(); }
  problems::TriangleMesh mesh() const override {
    return shown_.mesh(shown_scene(problem_.model()));
  }
  Shown shown() const override { return {mesh(), shown_.values(), {}}; }
  Writers writers() const override { return Writers::one; }
  void check_out(const std::string& path) const override { source_->check_out(path); }
  void write(const std::string& path) const override { source_->write(path, problem_.model()); }
  Summary minimize(const SolverOptions& options) override {
    Adjustment adjustment = adjust(problem_, options);
    moved_ = adjustment.moved_points;
    facts_["moved_points"] = moved_;
    return std::move(adjustment.summary);
  }
  void join_answer() override {
    const ColmapModel model = problem_.model();
    after_ = pixel_errors(model);
    if (!problem_.priors().empty()) facts_["prior_rmse"] = position_rmse(model, problem_.priors());
  }
  void describe_answer(ordered_json& report) const override;
  std::vector<std::string> answer_lines() const override;
  /// With a loss, what it leaves of the errors. Priors have a unit of their own.
  std::string error_text(double cost) const override {
    if (!problem_.priors().empty()) return {};
    return (robust_ ? "robust RMSE " : "RMSE ") +
           number(std::sqrt(2 * cost / static_cast<double>(observations_))) + " px";
  }
  std::string legend() const override { return "Colour: cameras are orange, points grey."; }

 private:
  std::string name_;
  std::unique_ptr<PhotoSource> source_;
  std::size_t observations_;
  PixelErrors before_, after_;
  ordered_json facts_;  ///< "colmap" or "openmvg" of the report
  ColmapProblem problem_;
  ShownScene shown_;
  bool robust_;
  std::size_t moved_ = 0;  ///< points, to lower minima
};

/// The files of --out overwrite none that was read, and COLMAP reads them.
void ColmapFolder::check_out(const std::string& path) const {
  const std::string folder = without_slashes(path);
  for (const ColmapFiles::File* file :
       {&files_->cameras, &files_->images, &files_->points, &files_->rigs, &files_->frames}) {
    if (file->name.empty()) continue;
    std::error_code failed;
    if (std::filesystem::equivalent(folder + "/" + file->name, folder_ + "/" + file->name, failed))
      throw Error(ErrorCode::InvalidArgument, "--out: expected another folder than " + folder_ +
                                                  ", which was read, got " + path);
    declare_output({"--out", folder + "/" + file->name});
  }
  std::error_code failed;
  if (!files_->binary && std::filesystem::exists(folder + "/cameras.bin", failed))
    throw Error(ErrorCode::InvalidArgument,
                "--out: expected a folder without cameras.bin, which COLMAP would read in place of "
                "cameras.txt, got " +
                    path);
  // COLMAP would read those of another model with this one.
  if (!files_->rigs.name.empty()) return;
  const std::string ending = files_->binary ? ".bin" : ".txt";
  for (const char* name : {"rigs", "frames"})
    if (std::filesystem::exists(folder + "/" + name + ending, failed))
      throw Error(ErrorCode::InvalidArgument, std::string("--out: expected a folder without ") +
                                                  name + ending +
                                                  ", which this model does not have, got " + path);
}

void PhotoModel::describe_answer(ordered_json& report) const {
  ordered_json& out = report["reprojection"];
  out = {{"observations", observations_}, {"rmse", after_.rmse},
         {"median", after_.median},       {"mean", after_.mean},
         {"rmse_before", before_.rmse},   {"median_before", before_.median},
         {"mean_before", before_.mean},   {"worst", ordered_json::array()}};
  for (const PixelErrors::Row& row : after_.worst)
    out["worst"].push_back({{"image", row.image}, {"point", row.point}, {"pixels", row.pixels}});
  report[name_] = facts_;
}

std::vector<std::string> PhotoModel::answer_lines() const {
  std::string cameras;
  for (const auto& [model, cameras_of_it] : facts_["models"].items())
    cameras += (cameras.empty() ? ", cameras: " : ", ") + cameras_of_it.dump() + " " + model;
  std::vector<std::string> lines = {
      source_->kind() + ", " + count(facts_["images"], "image") + ", " +
          count(facts_["points"], "point") + cameras + ", gauge " +
          std::string(name(problem_.gauge())),
      "Reprojection errors in pixels, " + count(observations_, "observation"),
      "  RMSE    " + number(after_.rmse) + ", from " + number(before_.rmse),
      "  mean    " + number(after_.mean) + ", from " + number(before_.mean),
      "  median  " + number(after_.median) + ", from " + number(before_.median)};
  for (const PixelErrors::Row& row : after_.worst)
    lines.push_back("  " + number(row.pixels) + "  image " + std::to_string(row.image) +
                    ", point " + std::to_string(row.point));
  if (moved_ > 0)
    lines.push_back(count(moved_, "point") + " moved by triangulation, where they fit better");
  if (facts_.contains("prior_rmse"))
    lines.push_back("RMS distance of " + count(problem_.priors().size(), "camera") +
                    " from the prior: " + number(facts_["prior_rmse"]) +
                    (problem_.aligned() ? ", after the model was moved to the priors" : ""));
  if (const std::size_t differ = facts_["tracks_differ"]; differ > 0)
    lines.push_back(count(differ, "track") +
                    " with another number of elements than images have observations, which count");
  return lines;
}

/// Parts that --refine names and the model does not have; the default names all.
std::vector<std::string> missing_parts(const std::vector<std::string>& refine,
                                       const ColmapModel& model) {
  std::vector<std::string> out;
  if (refine == default_refine()) return out;
  const auto look = [&](const char* part, bool has) {
    if (!has && std::ranges::find(refine, part) != refine.end()) out.emplace_back(part);
  };
  look("rigs", !model.sensors.empty());
  look("distortion", std::ranges::any_of(model.cameras, [](const ColmapModel::Camera& camera) {
         return sizes(camera.model).distortion > 0;
       }));
  return out;
}

std::pair<ColmapModel, std::unique_ptr<PhotoSource>> read_source(
    const ProblemArguments& arguments) {
  if (arguments.name == "openmvg") {
    if (arguments.file.empty()) throw Error(ErrorCode::InvalidArgument, "openmvg: expected a file");
    OpenMvgScene scene = read_openmvg(input_file(arguments.file));
    return {std::move(scene.model), std::make_unique<OpenMvgSource>(std::move(scene.file))};
  }
  if (arguments.file.empty()) throw Error(ErrorCode::InvalidArgument, "colmap: expected a folder");
  const std::string folder = without_slashes(arguments.file);
  ColmapModel model = read_colmap(folder);
  auto source = std::make_unique<ColmapFolder>(folder, model.files);
  return {std::move(model), std::move(source)};
}

}  // namespace

std::vector<std::string> default_refine() { return ColmapOptions().refine; }

bool is_photo_model(std::string_view name) { return name == "colmap" || name == "openmvg"; }

ColmapModel read_photo_model(const ProblemArguments& arguments) {
  return read_source(arguments).first;
}

ColmapOptions photo_model_options(const ProblemArguments& arguments, const ColmapModel& model) {
  ColmapOptions options{.loss = parse_loss(arguments.loss),
                        .refine = arguments.refine,
                        .gauge = parse_colmap_gauge(arguments.gauge),
                        .retriangulation = parse_retriangulation(arguments.retriangulate),
                        .prior_loss = parse_loss(arguments.prior_loss)};
  if (arguments.priors.empty() && !arguments.prior_loss.empty())
    throw Error(ErrorCode::InvalidArgument, "--prior-loss: expected --priors, got none");
  if (!arguments.priors.empty())
    options.priors = read_position_priors(input_file(arguments.priors), model);
  return options;
}

std::unique_ptr<NamedProblem> make_photo_model(const ProblemArguments& arguments) {
  auto [model, source] = read_source(arguments);
  const std::vector<std::string> missing = missing_parts(arguments.refine, model);
  const ColmapOptions options = photo_model_options(arguments, model);
  auto made = std::make_unique<PhotoModel>(std::move(model), std::move(source), arguments, options);
  for (const std::string& part : missing)
    print_warning("--refine " + part + ": the model has none");
  return made;
}

namespace {

using Point = std::array<double, 3>;

constexpr double kKept = 0.9;         // share of the points that the window holds along each axis
constexpr double kMargin = 0.25;      // of the window's size, on each side
constexpr double kPointSize = 0.002;  // of the window's diagonal
constexpr double kCameraSize = 0.008;

constexpr std::array<std::array<std::uint32_t, 3>, 8> kOctahedron = {
    {{0, 2, 4}, {2, 1, 4}, {1, 3, 4}, {3, 0, 4}, {2, 0, 5}, {1, 2, 5}, {3, 1, 5}, {0, 3, 5}}};
constexpr std::size_t kCorners = 6;

std::vector<std::uint32_t> choose(std::size_t count, std::size_t most) {
  std::vector<std::uint32_t> chosen;
  const std::size_t step = (count + most - 1) / std::max<std::size_t>(most, 1);
  for (std::size_t k = 0; k < count; k += std::max<std::size_t>(step, 1))
    chosen.push_back(static_cast<std::uint32_t>(k));
  return chosen;
}

Point point_of(const BundleScene& scene, std::uint32_t k) {
  const std::size_t at = 3 * std::size_t{k};
  return {scene.points[at], scene.points[at + 1], scene.points[at + 2]};
}

void add_octahedron(problems::TriangleMesh& mesh, const Point& center, double radius) {
  const auto first = static_cast<std::uint32_t>(mesh.vertex_count());
  for (std::size_t corner = 0; corner < kCorners; ++corner) {
    Point at = center;
    at[corner / 2] += corner % 2 == 0 ? radius : -radius;
    mesh.positions.insert(mesh.positions.end(), at.begin(), at.end());
  }
  for (const auto& [a, b, c] : kOctahedron)
    mesh.triangles.push_back({first + a, first + b, first + c});
}

}  // namespace

ShownScene::ShownScene(const BundleScene& scene)
    : cameras_(choose(scene.camera_count(), kMostShown)),
      points_(choose(scene.point_count(), kMostShown)) {
  for (std::size_t d = 0; d < 3; ++d) {
    std::vector<double> along;
    for (const std::uint32_t k : points_) along.push_back(point_of(scene, k)[d]);
    std::ranges::sort(along);
    if (along.empty()) continue;
    const auto last = static_cast<double>(along.size() - 1);
    low_[d] = along[static_cast<std::size_t>(last * (1 - kKept) / 2)];
    high_[d] = along[static_cast<std::size_t>(last * (1 + kKept) / 2)];
    const double margin = kMargin * (high_[d] - low_[d]);
    low_[d] -= margin;
    high_[d] += margin;
  }
}

bool ShownScene::is_within(const std::array<double, 3>& at) const {
  for (std::size_t d = 0; d < 3; ++d)
    if (!(low_[d] <= at[d] && at[d] <= high_[d])) return false;
  return true;
}

problems::TriangleMesh ShownScene::mesh(const BundleScene& scene) const {
  const double diagonal = std::hypot(high_[0] - low_[0], high_[1] - low_[1], high_[2] - low_[2]);
  Point middle{};
  for (std::size_t d = 0; d < 3; ++d) middle[d] = (low_[d] + high_[d]) / 2;
  problems::TriangleMesh mesh;
  const auto add = [&](const Point& at, double radius) {
    const bool within = is_within(at);
    add_octahedron(mesh, within ? at : middle, within ? radius * diagonal : 0);
  };
  for (const std::uint32_t k : points_) add(point_of(scene, k), kPointSize);
  for (const std::uint32_t c : cameras_) add(scene.center(c), kCameraSize);
  return mesh;
}

std::vector<double> ShownScene::values() const {
  std::vector<double> values(kCorners * points_.size(), 0.0);
  values.resize(values.size() + kCorners * cameras_.size(), 1.0);
  return values;
}

}  // namespace topograd::command
