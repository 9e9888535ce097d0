// BAL files: what is read can be projected and reads back to the same scene.
#include "target.hpp"

#include "../../api/formats/bal.hpp"

namespace topograd::fuzz {

void bal(std::string_view text) {
  BundleScene scene;
  if (!reads([&] { scene = parse_bal(text, "scene.txt"); }, {ErrorCode::Parse})) return;
  for (const BundleScene::Observation& o : scene.observations)
    require(o.camera < scene.camera_count() && o.point < scene.point_count(),
            "an observation of what is not there");
  (void)reprojection_errors(scene);
  const BundleScene again = parse_bal(bal_text(scene), "again.txt");
  require(again.cameras == scene.cameras && again.points == scene.points,
          "a scene that does not read back");
}

}  // namespace topograd::fuzz
