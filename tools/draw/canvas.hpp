// A sheet drawn into pixels: depth buffer, supersampling, text, PNG.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "scene.hpp"

namespace topograd::draw {

/// The sheet as an RGB PNG file's bytes.
///
/// Captions are set in DejaVu Sans where Debian puts it and are left out where it is missing.
std::string png(const Sheet& sheet);

/// Sheets of one size as the bytes of an animated PNG that repeats for ever; programs that know no
/// animations show its first frame. Throws std::runtime_error for no sheets or different sizes.
///
///   milliseconds  that each is shown, 1 .. 65,535
std::string animated_png(std::span<const Sheet> sheets, int milliseconds);

/// Writes png(sheet). Throws std::runtime_error with the path if the file cannot be written.
void write_png(const Sheet& sheet, const std::filesystem::path& path);

}  // namespace topograd::draw
