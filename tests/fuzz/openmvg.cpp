// OpenMVG's scenes: what is read can be projected, and is written as it was.
#include "target.hpp"

#include "../../api/formats/openmvg.hpp"

#include <string>

namespace topograd::fuzz {

void openmvg(std::string_view text) {
  OpenMvgScene scene;
  if (!reads([&] { scene = parse_openmvg(std::string(text), "scene"); }, {ErrorCode::Parse}))
    return;
  ColmapModel& model = scene.model;
  for (const ColmapModel::Observation& o : model.observations)
    require(o.image < model.images.size() && o.point < model.point_count(),
            "an observation of what is not there");
  for (const ColmapModel::Image& image : model.images)
    require(image.camera < model.cameras.size() && image.frame < model.frames.size(),
            "an image of what is not there");
  (void)model.distances();
  (void)shown_scene(model);
  require(openmvg_text(model, *scene.file) == text, "a scene that is not written as it was");
  for (double& x : model.points) x += 0.5;
  const ColmapModel again = parse_openmvg(openmvg_text(model, *scene.file), "again").model;
  require(again.points == model.points, "points that do not read back");
  require(again.observations.size() == model.observations.size(), "observations that are lost");
}

}  // namespace topograd::fuzz
