// Models of photographs, COLMAP's and OpenMVG's, as problems and as meshes for pictures.
#pragma once

#include "../../../api/formats/bundle_scene.hpp"
#include "../../../api/formats/colmap_problem.hpp"
#include "../../problems/mesh.hpp"
#include "named_problem.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {

/// What --refine refines unless it is given.
std::vector<std::string> default_refine();

/// True for colmap and openmvg.
bool is_photo_model(std::string_view name);
/// The model in the folder or file ProblemArguments::file. Throws Error{InvalidArgument} without
/// it, and what reading it throws.
std::unique_ptr<NamedProblem> make_photo_model(const ProblemArguments& arguments);
/// The model and the options of its problem.
ColmapModel read_photo_model(const ProblemArguments& arguments);
ColmapOptions photo_model_options(const ProblemArguments& arguments, const ColmapModel& model);

/// The drawing of a scene: small octahedra for points, larger ones for cameras. It is chosen
/// once, so that pictures before and after a solve show the same things in the same window.
class ShownScene {
 public:
  /// At most kMostShown points and as many cameras, evenly chosen. The window holds the points
  /// without the farthest ones, and all cameras near them.
  explicit ShownScene(const BundleScene& scene);

  static constexpr std::size_t kMostShown = 20'000;

  /// The scene now; what is outside of the window is not drawn.
  problems::TriangleMesh mesh(const BundleScene& scene) const;
  /// For each vertex of mesh(): 0 for points, 1 for cameras.
  std::vector<double> values() const;

 private:
  bool is_within(const std::array<double, 3>& at) const;

  std::vector<std::uint32_t> cameras_, points_;
  std::array<double, 3> low_ = {}, high_ = {};
};

}  // namespace topograd::command
