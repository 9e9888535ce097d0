// Reads and writes pictures with libpng.
#pragma once

#include "sample.hpp"

#include <png.h>

#include <string>
#include <string_view>
#include <vector>

namespace sample {

/// Rows of pixels of three bytes: red, green, blue.
struct Picture {
  std::size_t width = 0, height = 0;
  std::vector<png_byte> rgb;
};

/// Throws topograd::Error{File}.
inline Picture read_png(const std::string& path) {
  png_image file{};
  file.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&file, path.c_str())) fail_to_read(path);
  file.format = PNG_FORMAT_RGB;
  Picture picture{file.width, file.height, std::vector<png_byte>(PNG_IMAGE_SIZE(file))};
  if (!png_image_finish_read(&file, nullptr, picture.rgb.data(), 0, nullptr)) fail_to_read(path);
  return picture;
}

/// Writes like write_file().
inline void write_png(const std::string& path, const Picture& picture) {
  png_image file{};
  file.version = PNG_IMAGE_VERSION;
  file.width = static_cast<png_uint_32>(picture.width);
  file.height = static_cast<png_uint_32>(picture.height);
  file.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (!png_image_write_get_memory_size(file, size, 0, picture.rgb.data(), 0, nullptr))
    fail_to_write(path);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&file, bytes.data(), &size, 0, picture.rgb.data(), 0, nullptr))
    fail_to_write(path);
  write_file(path, std::string_view(bytes).substr(0, size));
}

}  // namespace sample
