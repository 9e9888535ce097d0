// Sparse models from and to the files of COLMAP.
#pragma once

#include "bundle_scene.hpp"
#include "camera_model.hpp"
#include "pose_graph.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd {

/// The files of a model, and where its numbers are in them.
struct ColmapFiles {
  struct File {
    std::string name;  ///< without its folder: "cameras.txt"; empty for a file that is not there
    std::string text;
    std::vector<std::size_t> places = {};  ///< byte of the first number of each record
  };
  bool binary = false;
  File cameras, images, points, rigs, frames;
};

/// A sparse model: cameras, images that they took, points, and where images show them.
///
/// A pose maps points of the world to the frame of a camera or rig: X → R X + t, with t in
/// `position`. Quaternions are as in the file, of any length but 0. An image of a rig has the pose
/// sensor · frame; without files of rigs and frames each image is a frame of its own.
struct ColmapModel {
  struct Camera {
    std::uint32_t id = 0;
    CameraModel model = CameraModel::SIMPLE_PINHOLE;
    std::uint64_t width = 0, height = 0;  ///< pixels
    std::vector<double> parameters;
  };
  /// A camera of a rig that is not its reference, with its pose in the rig.
  struct Sensor {
    std::uint32_t rig = 0, camera = 0;  ///< ids
    Pose pose;
  };
  struct Frame {
    std::uint32_t id = 0;
    Pose pose;
  };
  static constexpr std::uint32_t kNoSensor = ~std::uint32_t{0};  ///< the pose is that of the frame
  struct Image {
    std::uint32_t id = 0;
    std::string name;
    std::uint32_t camera = 0, frame = 0, sensor = kNoSensor;  ///< numbers in the lists below
  };
  struct Observation {
    std::uint32_t image = 0, point = 0;  ///< numbers in the lists below
    std::array<double, 2> seen = {};     ///< pixels
  };

  std::vector<Camera> cameras;
  std::vector<Sensor> sensors;
  std::vector<Frame> frames;
  std::vector<Image> images;
  std::vector<std::uint64_t> point_ids;
  std::vector<double> points;  ///< (points, 3)
  std::vector<Observation> observations;
  /// Points whose track does not have as many elements as images have observations of them;
  /// points without a track do not count. The observations of the images are those that matter.
  std::size_t tracks_differ = 0;
  /// The files it was read from; null for a model that a program has made.
  std::shared_ptr<const ColmapFiles> files;

  std::size_t point_count() const { return points.size() / 3; }
  /// From the world to the camera, with a unit quaternion.
  Pose pose(std::size_t image) const;
  /// Position of an image's camera: −Rᵀ t.
  std::array<double, 3> center(std::size_t image) const;
  /// The image of a point, in pixels; not finite for a point that has none.
  std::array<double, 2> project(const Observation& observation) const;
  /// The image of each observation's point minus where it was seen, in pixels; not finite for a
  /// point that has none.
  std::vector<std::array<double, 2>> errors() const;
  /// The distance of each observation from the image of its point, in pixels; infinite for a point
  /// that has none.
  std::vector<double> distances() const;
};

/// Reads the model in a folder: cameras, images and points3D, and rigs and frames if they are
/// there, as .bin, or as .txt in a folder without cameras.bin, images.bin and points3D.bin.
///
/// 2D points without a 3D point are passed over. Source: COLMAP's documentation, Output Format.
///
/// Throws Error{File} if a file is not there or cannot be read, and Error{Parse}
/// ("FOLDER/cameras.txt:LINE: expected ..., got ..." or "FOLDER/cameras.bin: byte N: ...") for a
/// file that ends early or goes on, counts beyond the file's size, a camera model that is not
/// known, a focal length of 0, numbers that are missing or not finite, ids that are there twice,
/// ids of what is not there, a track that names a 2D point that is not there, a quaternion of
/// length 0, rigs without frames or frames without rigs, and an image of no frame or of a sensor
/// without a pose. Cost: linear in the files, which the model keeps.
ColmapModel read_colmap(const std::string& folder);
/// The same of files that are in memory.
///
///   folder  goes before names of files in messages
ColmapModel parse_colmap(ColmapFiles files, const std::string& folder);

/// The files of a model as it was read, with its present numbers: a number that is the same as in
/// the file keeps its bytes, as does everything that is not a parameter of a camera, a pose or a
/// position. Points that have moved also get the mean of their distances() as their ERROR. Other
/// numbers read back to the same bits.
///
/// Throws Error{InvalidArgument} for a model without files or with other numbers of cameras,
/// sensors, frames, images or points than they have.
ColmapFiles colmap_files(const ColmapModel& model);
/// Writes them to a folder, which is made if it is not there. Throws Error{File}, and what
/// colmap_files() throws.
void write_colmap(const std::string& folder, const ColmapModel& model);

/// Cameras as Snavely's without a focal length, and points, for pictures: observations and
/// parameters of cameras are left out.
BundleScene shown_scene(const ColmapModel& model);

}  // namespace topograd
