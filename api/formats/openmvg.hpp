// Scenes from and to the files of OpenMVG.
#pragma once

#include "colmap.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace topograd {

/// The text of a scene of OpenMVG, and the bytes at which its numbers begin.
struct OpenMvgFile {
  std::string text;
  std::vector<std::vector<std::size_t>> cameras;    ///< of the parameters of each camera
  std::vector<std::array<std::size_t, 12>> frames;  ///< of the rows of R, then of the centre
  std::vector<Pose> poses;                          ///< of frames, as they were read
  std::vector<std::size_t> points;                  ///< of each coordinate
};

struct OpenMvgScene {
  ColmapModel model;
  std::shared_ptr<const OpenMvgFile> file;
};

/// Reads a scene in JSON (sfm_data.json), plain or packed by gzip or bzip2: views, intrinsics,
/// extrinsics and structure. Cameras, frames, images and points have the keys of intrinsics, poses,
/// views and landmarks as ids. Views without a pose or a camera, priors of views and control points
/// are passed over.
///
/// Cameras are pinhole, pinhole_radial_k1, pinhole_radial_k3, pinhole_brown_t2 and fisheye.
/// Source: OpenMVG 2.0, SfM_Data format.
///
/// Throws Error{File} if the file cannot be read, and Error{Parse} ("file: structure[3]: expected
/// ..., got ...") for text that is no JSON, another camera by its name, numbers that are missing, a
/// matrix that is no rotation, a focal length of 0, keys that are there twice, and an observation
/// of a view that is not there or has no pose. Cost: linear in the file, which the scene keeps.
OpenMvgScene read_openmvg(const std::string& path);
/// The same of a text; `name` goes before messages.
OpenMvgScene parse_openmvg(std::string text, const std::string& name);

/// The scene's text with the numbers of a model of it: a camera parameter, a pose or a coordinate
/// that is the same as in the text keeps its bytes, as does everything else. Other numbers read
/// back to the same bits, but poses, which are matrices and centres there.
///
/// Throws Error{InvalidArgument} for a model with other numbers of cameras, parameters, frames or
/// points.
std::string openmvg_text(const ColmapModel& model, const OpenMvgFile& file);

}  // namespace topograd
