// Makes an animated PNG from images (chunks of APNG: Mozilla, 2004; PNG, 3rd ed.).
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "canvas.hpp"

namespace topograd::draw {
namespace {

constexpr std::size_t kSignature = 8, kHeader = 13;

std::string big_endian(std::uint32_t value, int bytes = 4) {
  std::string out;
  for (int k = bytes - 1; k >= 0; --k) out += static_cast<char>(value >> (8 * k) & 0xff);
  return out;
}

/// CRC-32 of ISO 3309, bit by bit, reflected.
std::uint32_t crc(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t n = 0; n < 256; ++n) {
      t[n] = n;
      for (int k = 0; k < 8; ++k) t[n] = (t[n] & 1) != 0 ? 0xedb88320 ^ (t[n] >> 1) : t[n] >> 1;
    }
    return t;
  }();
  std::uint32_t c = 0xffffffff;
  for (const char byte : bytes)
    c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ (c >> 8);
  return ~c;
}

std::string chunk(std::string_view kind, std::string_view content) {
  const std::string body = std::string(kind) + std::string(content);
  return big_endian(static_cast<std::uint32_t>(content.size())) + body + big_endian(crc(body));
}

/// The concatenated contents of a PNG's chunks of one type.
std::string contents(std::string_view file, std::string_view kind) {
  std::string out;
  for (std::size_t at = kSignature; at + 12 <= file.size();) {
    std::uint32_t size = 0;
    for (std::size_t k = 0; k < 4; ++k) size = size << 8 | static_cast<unsigned char>(file[at + k]);
    if (file.substr(at + 4, 4) == kind) out += file.substr(at + 8, size);
    at += 12 + std::size_t{size};
  }
  return out;
}

/// Position and duration of a frame: it replaces the whole picture.
std::string frame_control(std::uint32_t number, const Sheet& sheet, int milliseconds) {
  return chunk("fcTL", big_endian(number) + big_endian(static_cast<std::uint32_t>(sheet.width)) +
                           big_endian(static_cast<std::uint32_t>(sheet.height)) + big_endian(0) +
                           big_endian(0) + big_endian(static_cast<std::uint32_t>(milliseconds), 2) +
                           big_endian(1000, 2) + std::string(2, '\0'));
}

}  // namespace

std::string animated_png(std::span<const Sheet> sheets, int milliseconds) {
  if (sheets.empty()) throw std::runtime_error("a film needs a picture, got none");
  std::string out;
  std::uint32_t number = 0;
  for (const Sheet& sheet : sheets) {
    if (sheet.width != sheets[0].width || sheet.height != sheets[0].height)
      throw std::runtime_error("the pictures of a film have one size, got different ones");
    const std::string still = png(sheet);
    const bool first = out.empty();
    if (first) {
      const auto count = static_cast<std::uint32_t>(sheets.size());
      out = still.substr(0, kSignature + 12 + kHeader) +
            chunk("acTL", big_endian(count) + big_endian(0));
    }
    out += frame_control(number++, sheet, milliseconds);
    const std::string data = contents(still, "IDAT");
    out += first ? chunk("IDAT", data) : chunk("fdAT", big_endian(number++) + data);
  }
  return out + chunk("IEND", "");
}

}  // namespace topograd::draw
