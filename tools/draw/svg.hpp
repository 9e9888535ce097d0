// A sheet drawn as SVG: flat triangles painted from far to near.
#pragma once

#include <filesystem>
#include <string>

#include "scene.hpp"

namespace topograd::draw {

/// Escapes text for SVG and HTML.
std::string escaped(const std::string& text);

/// Writes the sheet as SVG. Throws std::runtime_error with the path if the file cannot be written.
void write_svg(const Sheet& sheet, const std::filesystem::path& path);

}  // namespace topograd::draw
