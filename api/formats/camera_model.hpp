// Camera models of COLMAP and OpenMVG, as functions of numbers and of Values.
#pragma once

#include "../../frontend/value/math.hpp"
#include "../../frontend/vec.hpp"
#include "../../ir/enum_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace topograd {

/// Camera models with COLMAP's names and numbers, and behind them those of OpenMVG that are none of
/// COLMAP's, because they have one focal length. A camera looks along its positive z axis, x points
/// to the right and y down; the centre of the upper left pixel is (0.5, 0.5).
///
/// The parameters are one or two focal lengths (pixels), the principal point (pixels) and the
/// numbers of the distortion, as parameter_names() lists them. A perspective model distorts
/// (x, y) / z. A fisheye model distorts the vector of that direction whose length is the angle to
/// the axis, also beyond 90°. Sources: COLMAP 3.12 to 4.0, sensor models; OpenMVG 2.0, cameras.
enum class CameraModel : std::uint8_t {
  SIMPLE_PINHOLE,
  PINHOLE,
  SIMPLE_RADIAL,
  RADIAL,
  OPENCV,
  OPENCV_FISHEYE,
  FULL_OPENCV,
  FOV,
  SIMPLE_RADIAL_FISHEYE,
  RADIAL_FISHEYE,
  THIN_PRISM_FISHEYE,
  RAD_TAN_THIN_PRISM_FISHEYE,
  SIMPLE_DIVISION,
  DIVISION,
  SIMPLE_FISHEYE,
  FISHEYE,
  EUCM,
  PINHOLE_RADIAL_K3,
  PINHOLE_BROWN_T2,
  PINHOLE_FISHEYE
};
TG_ENUM_NAMES(CameraModel)
/// Number of the models that COLMAP has.
inline constexpr std::size_t kColmapModels = static_cast<std::size_t>(CameraModel::EUCM) + 1;
/// Most parameters of a model.
inline constexpr std::size_t kMostCameraParameters = 16;

/// Numbers of parameters: focal lengths come first, then two of the principal point, then those of
/// the distortion.
struct CameraModelSizes {
  std::size_t focal = 1;  ///< 1 or 2
  std::size_t distortion = 0;

  std::size_t all() const { return focal + 2 + distortion; }
};
CameraModelSizes sizes(CameraModel model);
/// True for models that map the angle to the axis: fisheye models and FOV.
bool maps_angles(CameraModel model);
/// "f cx cy k1 k2".
std::string_view parameter_names(CameraModel model);

/// Returns the image of a point of the camera's frame, in pixels; derivatives are exact on the
/// axis.
///
///   parameters  sizes(model).all() Values
///
/// Throws Error{Shape} for another number of parameters.
Vec2 project(CameraModel model, std::span<const Value> parameters, const Vec3& point);
/// The same with numbers; not finite for a point without an image.
std::array<double, 2> project(CameraModel model, std::span<const double> parameters,
                              const std::array<double, 3>& point);

}  // namespace topograd
