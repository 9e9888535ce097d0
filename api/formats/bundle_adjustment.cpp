// Bundle adjustment as a problem.
#include "bundle_adjustment.hpp"

#include "../../frontend/mat.hpp"
#include "../../ir/error.hpp"
#include "word_reader.hpp"

#include <string_view>
#include <utility>

namespace topograd {
namespace {

struct Part {
  std::string_view name;
  std::uint32_t coordinates;  ///< of a camera
  int number;                 ///< the coordinate, if it is one; else -1
};
constexpr std::array<Part, 6> kParts = {{{"rotation", 0b000000111, -1},
                                         {"translation", 0b000111000, -1},
                                         {"f", 0b001000000, 6},
                                         {"k1", 0b010000000, 7},
                                         {"k2", 0b100000000, 8},
                                         {"cameras", 0b111111111, -1}}};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::InvalidArgument, "bundle adjustment: " + what);
}

void check(const BundleScene& scene) {
  if (scene.observations.empty()) refuse("expected observations, got none");
  for (std::size_t k = 0; k < scene.observations.size(); ++k) {
    const BundleScene::Observation& o = scene.observations[k];
    if (o.camera < scene.camera_count() && o.point < scene.point_count()) continue;
    refuse("observation " + std::to_string(k) + ": expected a camera below " +
           std::to_string(scene.camera_count()) + " and a point below " +
           std::to_string(scene.point_count()) + ", got " + std::to_string(o.camera) + " and " +
           std::to_string(o.point));
  }
}

void fix_coordinates(Problem& problem, const Parameters& x, std::uint32_t coordinates) {
  for (std::size_t block = 0; block < x.size(); ++block)
    problem.set_constant(x, block, coordinates);
}

}  // namespace

std::array<Value, 2> reprojection(const std::array<Value, 9>& camera, const Vec3& point,
                                  const Vec2& seen) {
  const Vec3 P =
      rotate(Vec3{camera[0], camera[1], camera[2]}, point) + Vec3{camera[3], camera[4], camera[5]};
  const Value u = -P.x / P.z, v = -P.y / P.z, s = u * u + v * v;
  const Value scale = camera[6] * (literal(1) + s * (camera[7] + camera[8] * s));
  return {scale * u - seen.x, scale * v - seen.y};
}

void add_reprojections(Problem& problem, const Parameters& cameras, const Parameters& points,
                       const BundleScene& scene, Loss loss) {
  std::vector<std::uint32_t> indices;
  std::vector<double> seen;
  indices.reserve(2 * scene.observations.size());
  seen.reserve(2 * scene.observations.size());
  for (const BundleScene::Observation& o : scene.observations) {
    indices.insert(indices.end(), {o.camera, o.point});
    seen.insert(seen.end(), {o.seen[0], o.seen[1]});
  }
  const auto residual = [&cameras, &points](const Element& e) {
    std::array<Value, 9> camera;
    for (int k = 0; k < 9; ++k) camera[static_cast<std::size_t>(k)] = cameras(e.index(0), k);
    return reprojection(camera, e.vec3(points, 1), e.data_vec2(0));
  };
  problem.add_residuals(
      scene.observations.size(), residual,
      {.indices = indices, .data = seen, .loss = std::move(loss), .label = "observation"});
}

BundleAdjustment::BundleAdjustment(BundleScene scene, const BundleAdjustmentOptions& options)
    : scene_(std::move(scene)) {
  check(scene_);
  if (options.normalize) {
    frame_ = median_frame(scene_);
    enter_frame(scene_, frame_);
  }
  cameras_ = problem_.add_parameters(scene_.cameras, BundleScene::kCameraSize, "cameras");
  points_ = problem_.add_parameters(scene_.points, 3, "points");
  add_reprojections(problem_, cameras_, points_, scene_, options.loss);
  for (const std::string& what : options.fixed) fix(what);
}

void BundleAdjustment::fix(const std::string& what) {
  const std::size_t equals = what.find('=');
  const std::string name = what.substr(0, equals);
  if (what == "points") return fix_coordinates(problem_, points_, 0b111);
  for (const Part& part : kParts) {
    if (part.name != name) continue;
    if (equals != std::string::npos) {
      if (part.number < 0) refuse("expected a number for f, k1 or k2 alone, got \"" + what + "\"");
      WordReader reader(std::string_view(what).substr(equals + 1), "bundle adjustment: " + name);
      const double value = reader.number("a value");
      for (std::size_t c = 0; c < scene_.camera_count(); ++c)
        scene_.cameras[BundleScene::kCameraSize * c + static_cast<std::size_t>(part.number)] =
            value;
    }
    return fix_coordinates(problem_, cameras_, part.coordinates);
  }
  refuse("expected rotation, translation, f, k1, k2, cameras or points to fix, got \"" + what +
         "\"");
}

BundleScene BundleAdjustment::scene() const {
  BundleScene out = scene_;
  leave_frame(out, frame_);
  return out;
}

}  // namespace topograd
