// Scenes from and to the files of Bundle Adjustment in the Large.
#pragma once

#include "bundle_scene.hpp"

#include <string>
#include <string_view>

namespace topograd {

/// Reads a BAL file, plain or packed by gzip or bzip2.
///
/// The file has the numbers of cameras, points and observations; for each observation its camera,
/// its point and where it was seen (pixels); for each camera nine numbers and for each point three.
/// Source: https://grail.cs.washington.edu/projects/bal/.
///
/// Throws Error{File} if the file cannot be read, Error{Parse} ("file:line: expected ..., got ...")
/// for a file that ends early or goes on, a number that is not finite, and an observation of a
/// camera or point that is not there. Cost: linear in the file.
BundleScene read_bal(const std::string& path);
/// The same of a text; `name` goes before messages.
BundleScene parse_bal(std::string_view text, const std::string& name);

/// The scene as a BAL file: numbers read back to the same bits.
std::string bal_text(const BundleScene& scene);
/// The scene as a PLY file for viewers: points are white, cameras green.
std::string ply_text(const BundleScene& scene);

/// Writes ply_text() if the path ends in .ply, else bal_text(). Throws Error{File}.
void write_scene(const std::string& path, const BundleScene& scene);

}  // namespace topograd
