// COLMAP's models: what is read can be projected, and is written as it was. An input begins with b
// for binary files; five dashes separate the files of cameras, images, points, rigs and frames, and
// a file of priors.
#include "target.hpp"

#include "../../api/formats/colmap_problem.hpp"

#include <array>
#include <string>

namespace topograd::fuzz {

void colmap(std::string_view text) {
  constexpr std::string_view kBetween = "-----";
  std::array<std::string, 6> parts;
  const bool binary = text.starts_with('b');
  if (binary) text.remove_prefix(1);
  std::size_t count = 0;
  while (count < parts.size()) {
    const std::size_t end = text.find(kBetween);
    parts[count++] = text.substr(0, end);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + kBetween.size());
  }
  ColmapFiles files{.binary = binary,
                    .cameras = {"cameras", parts[0]},
                    .images = {"images", parts[1]},
                    .points = {"points3D", parts[2]}};
  if (count > 3) files.rigs = {"rigs", parts[3]};
  if (count > 4) files.frames = {"frames", parts[4]};
  ColmapModel model;
  if (!reads([&] { model = parse_colmap(files, "model"); }, {ErrorCode::Parse})) return;
  for (const ColmapModel::Observation& o : model.observations)
    require(o.image < model.images.size() && o.point < model.point_count(),
            "an observation of what is not there");
  for (const ColmapModel::Image& image : model.images)
    require(image.camera < model.cameras.size() && image.frame < model.frames.size() &&
                (image.sensor == ColmapModel::kNoSensor || image.sensor < model.sensors.size()),
            "an image of what is not there");
  (void)model.distances();
  (void)shown_scene(model);
  const ColmapFiles same = colmap_files(model);
  require(same.cameras.text == files.cameras.text && same.images.text == files.images.text &&
              same.points.text == files.points.text && same.rigs.text == files.rigs.text &&
              same.frames.text == files.frames.text,
          "a model that is not written as it was");
  for (double& x : model.points) x += 0.5;
  const ColmapModel again = parse_colmap(colmap_files(model), "again");
  require(again.points == model.points, "points that do not read back");
  (void)reads([&] { (void)parse_position_priors(parts[5], "priors", model); }, {ErrorCode::Parse});
}

}  // namespace topograd::fuzz
