// Scenes as meshes for pictures.
#pragma once

#include "../../problems/mesh.hpp"

#include "../../../api/formats/bundle_scene.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace topograd::command {

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
