// Draws a sheet: as pixels with a depth buffer, as PNG, also animated, or as SVG.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "scene.hpp"

namespace topograd::draw {

/// The sheet as the bytes of an RGB PNG file.
///
/// Captions use DejaVu Sans, from ../share/topograd beside the program's folder or where
/// distributions have it, and are omitted if it is missing.
std::string png(const Sheet& sheet);

/// Sheets of one size as the bytes of an animated PNG that repeats forever; programs without
/// support for animations show its first frame. Throws std::runtime_error if there are no sheets or
/// their sizes differ.
///
///   milliseconds  duration of each sheet, 1 .. 65,535
std::string animated_png(std::span<const Sheet> sheets, int milliseconds);

/// Writes png(sheet). Throws std::runtime_error with the path if the file cannot be written.
void write_png(const Sheet& sheet, const std::filesystem::path& path);

/// Escapes text for SVG and HTML.
std::string escaped(const std::string& text);

/// Writes the sheet as SVG. Throws std::runtime_error with the path if the file cannot be written.
void write_svg(const Sheet& sheet, const std::filesystem::path& path);

}  // namespace topograd::draw
