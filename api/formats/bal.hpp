// Scenes from and to the files of Bundle Adjustment in the Large, and from those of Bundler.
#pragma once

#include "../../ir/share.hpp"
#include "bundle_scene.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Reads a BAL or Bundler file, plain or packed by gzip or bzip2.
///
/// The file has the numbers of cameras, points and observations; for each observation its camera,
/// its point and where it was seen (pixels); for each camera nine numbers and for each point three.
/// A file that begins with "# Bundle file" is one of Bundler (.out), whose cameras are the same:
/// focal length, k1, k2, rotation and translation of each camera, then of each point position,
/// colour, and the views with camera, key and position.
/// Sources: https://grail.cs.washington.edu/projects/bal/, Snavely, Bundler v0.3 User's Manual.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} ("file:line: expected ..., got ...")
/// for a file that ends early, goes on or has no observations, a matrix that is no rotation, a
/// number that is not finite, and an observation of a camera or point that is not there. Cost:
/// linear in the file.
///
///   share  of the observations, in their order; the scene has no others
BundleScene read_bal(const std::string& path, Share share = {});
/// The same of a text; `name` goes before messages.
BundleScene parse_bal(std::string_view text, const std::string& name, Share share = {});

/// The scene as a BAL file: numbers read back to the same bits.
std::string bal_text(const BundleScene& scene);
/// The scene as a PLY file for viewers: points are white, cameras green.
std::string ply_text(const BundleScene& scene);

/// The parts of a process in the file that write_scene() writes: the file has the first text of
/// each process, then the second ones, and so on.
///
///   scene         with all cameras and points, and the process's observations
///   share         of the cameras and points
///   observations  of all processes
std::vector<std::string> scene_texts(const std::string& path, const BundleScene& scene, Share share,
                                     std::uint64_t observations);

/// Writes ply_text() if the path ends in .ply, else bal_text(). Throws Error{File}.
void write_scene(const std::string& path, const BundleScene& scene);

}  // namespace topograd
