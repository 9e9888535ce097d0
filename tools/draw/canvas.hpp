// A sheet drawn into pixels: depth buffer, supersampling, text, PNG.
#pragma once

#include <filesystem>

#include "scene.hpp"

namespace topograd::draw {

/// Draws the sheet and writes it as an RGB PNG.
///
/// Captions are set in DejaVu Sans where Debian puts it and are left out where it is missing.
/// Throws std::runtime_error with the path if the file cannot be written.
void write_png(const Sheet& sheet, const std::filesystem::path& path);

}  // namespace topograd::draw
