// Rendering to pixels with supersampling and text, PNG and its animations, and SVG.
#include "canvas.hpp"

#include <ft2build.h>
#include <array>
#include <cstdint>
#include <iomanip>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "../../ir/machine/parallel.hpp"
#include "../../ir/machine/platform.hpp"

#include FT_FREETYPE_H
#include <png.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace topograd::draw {
namespace {

constexpr int kSamples = 4;  // per pixel and direction
constexpr double kInk = 0.03;

/// Rows of pixels whose samples are in memory at a time.
constexpr int kBandRows = 4;

/// Linear light and depth of the samples of a band: all columns, rows from `first` on.
struct Samples {
  int width, first, rows;
  std::vector<Vec3> color;
  std::vector<double> depth;

  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y - first) * width + static_cast<std::size_t>(x);
  }
  /// Begins the band of `count` rows from `row` on; memory is used again.
  void blank(int row, int count) {
    first = row;
    rows = count;
    const std::size_t size = static_cast<std::size_t>(width) * count;
    color.assign(size, Vec3{1, 1, 1});
    depth.assign(size, std::numeric_limits<double>::infinity());
  }
};

double edge(const Corner& a, const Corner& b, double x, double y) {
  return (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x);
}

/// Fills the samples of a triangle that are nearer than the present ones; interpolates colours.
void fill(Samples& s, std::array<Corner, 3> t) {
  for (Corner& corner : t) corner.x *= kSamples, corner.y *= kSamples;
  const auto [left, right] = std::minmax({t[0].x, t[1].x, t[2].x});
  const auto [top, bottom] = std::minmax({t[0].y, t[1].y, t[2].y});
  const double area = edge(t[0], t[1], t[2].x, t[2].y);
  if (area == 0) return;
  const int x_end = std::min(s.width, static_cast<int>(std::ceil(right)));
  const int y_end = std::min(s.first + s.rows, static_cast<int>(std::ceil(bottom)));
  for (int y = std::max(s.first, static_cast<int>(top)); y < y_end; ++y) {
    for (int x = std::max(0, static_cast<int>(left)); x < x_end; ++x) {
      const double a = edge(t[1], t[2], x + 0.5, y + 0.5) / area;
      const double b = edge(t[2], t[0], x + 0.5, y + 0.5) / area;
      const double c = 1 - a - b;
      if (a < 0 || b < 0 || c < 0) continue;
      const double depth = a * t[0].depth + b * t[1].depth + c * t[2].depth;
      const std::size_t at = s.at(x, y);
      if (depth >= s.depth[at]) continue;
      s.depth[at] = depth;
      for (int i = 0; i < 3; ++i) {
        s.color[at][i] = a * t[0].color[i] + b * t[1].color[i] + c * t[2].color[i];
      }
    }
  }
}

/// Linear light per pixel.
struct Pixels {
  int width, height;
  std::vector<Vec3> color;
};

/// Writes the means of the samples of each pixel.
void average(const Samples& s, Pixels& p) {
  for (int y = s.first; y < s.first + s.rows; ++y) {
    for (int x = 0; x < s.width; ++x) {
      const Vec3& from = s.color[s.at(x, y)];
      Vec3& to = p.color[static_cast<std::size_t>(y / kSamples) * p.width + x / kSamples];
      for (int i = 0; i < 3; ++i) to[i] += from[i] / (kSamples * kSamples);
    }
  }
}

using Triangle = std::array<Corner, 3>;

/// By band, the triangles that may reach it, in the order of the sheet.
std::vector<std::vector<const Triangle*>> triangles_of_bands(const Sheet& sheet) {
  const int bands = (sheet.height + kBandRows - 1) / kBandRows;
  std::vector<std::vector<const Triangle*>> out(static_cast<std::size_t>(bands));
  for (const Panel& panel : sheet.panels) {
    for (const Triangle& t : panel.triangles) {
      const auto [top, bottom] = std::minmax({t[0].y, t[1].y, t[2].y});
      const double first = std::max(0.0, std::floor(top / kBandRows));
      const double last = std::min(bands - 1.0, std::floor(bottom / kBandRows));
      for (double band = first; band <= last; ++band)
        out[static_cast<std::size_t>(band)].push_back(&t);
    }
  }
  return out;
}

/// The sheet without its captions.
Pixels triangles_of(const Sheet& sheet) {
  Pixels pixels{sheet.width, sheet.height, {}};
  pixels.color.resize(static_cast<std::size_t>(sheet.width) * sheet.height);
  const auto bands = triangles_of_bands(sheet);
  ir::parallel_pieces(bands.size(), 1, [&](std::size_t begin, std::size_t end) {
    Samples samples{sheet.width * kSamples, 0, 0, {}, {}};
    for (std::size_t k = begin; k < end; ++k) {
      const int row = static_cast<int>(k) * kBandRows;
      samples.blank(row * kSamples, std::min(kBandRows, sheet.height - row) * kSamples);
      for (const Triangle* triangle : bands[k]) fill(samples, *triangle);
      average(samples, pixels);
    }
  });
  return pixels;
}

/// Files of DejaVu Sans: beside the program in a portable archive, then as distributions have it.
std::vector<std::string> font_files() {
  return {platform::executable_folder() + "/../share/topograd/DejaVuSans.ttf",
          "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
          "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
          "/usr/share/fonts/TTF/DejaVuSans.ttf"};
}

/// Renders lines of text; does nothing without the font.
class Typesetter {
 public:
  explicit Typesetter(int size) {
    if (FT_Init_FreeType(&library_) != 0) return;
    for (const std::string& file : font_files()) {
      if (FT_New_Face(library_, file.c_str(), 0, &face_) == 0) break;
      face_ = nullptr;
    }
    if (face_ == nullptr) return;
    FT_Set_Pixel_Sizes(face_, 0, static_cast<FT_UInt>(size));
  }
  ~Typesetter() {
    if (library_ != nullptr) FT_Done_FreeType(library_);  // also frees the face
  }
  Typesetter(const Typesetter&) = delete;
  Typesetter& operator=(const Typesetter&) = delete;

  void set_centered(Pixels& pixels, const std::string& text, double center, double baseline) const {
    if (face_ == nullptr) return;
    double pen = center - width_of(text) / 2;
    for (const unsigned char c : text) {
      if (FT_Load_Char(face_, c, FT_LOAD_RENDER) != 0) continue;
      blend(pixels, static_cast<int>(pen) + face_->glyph->bitmap_left,
            static_cast<int>(baseline) - face_->glyph->bitmap_top);
      pen += advance();
    }
  }

 private:
  double advance() const { return static_cast<double>(face_->glyph->advance.x) / 64; }

  double width_of(const std::string& text) const {
    double width = 0;
    for (const unsigned char c : text) {
      if (FT_Load_Char(face_, c, FT_LOAD_DEFAULT) == 0) width += advance();
    }
    return width;
  }

  /// Blends the last rendered glyph into the pixels, with its corner at (left, top).
  void blend(Pixels& pixels, int left, int top) const {
    const FT_Bitmap& glyph = face_->glyph->bitmap;
    for (int y = 0; y < static_cast<int>(glyph.rows); ++y) {
      for (int x = 0; x < static_cast<int>(glyph.width); ++x) {
        const int px = left + x, py = top + y;
        if (px < 0 || py < 0 || px >= pixels.width || py >= pixels.height) continue;
        const double ink = glyph.buffer[y * glyph.pitch + x] / 255.0;
        for (double& c : pixels.color[static_cast<std::size_t>(py) * pixels.width + px]) {
          c = (1 - ink) * c + ink * kInk;
        }
      }
    }
  }

  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

Pixels draw(const Sheet& sheet) {
  Pixels pixels = triangles_of(sheet);
  const Typesetter typesetter(sheet.text_size);
  for (const Panel& panel : sheet.panels) {
    typesetter.set_centered(pixels, panel.caption, panel.center, panel.baseline);
  }
  return pixels;
}

}  // namespace

std::string png(const Sheet& sheet) {
  const Pixels pixels = draw(sheet);
  std::vector<png_byte> bytes;
  for (const Vec3& color : pixels.color) {
    for (const int c : to_srgb(color)) bytes.push_back(static_cast<png_byte>(c));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, bytes.data(), 0, nullptr) == 0)
    throw std::runtime_error(std::string("a picture cannot be made: ") + image.message);
  out.resize(size);
  return out;
}

void write_png(const Sheet& sheet, const std::filesystem::path& path) {
  const std::string bytes = png(sheet);
  if (!platform::write_output_file(path.string(), std::as_bytes(std::span(bytes))))
    throw std::runtime_error("draw_mesh: cannot write " + path.string());
}

namespace {

void write_triangle(std::ostream& out, const std::array<Corner, 3>& t) {
  Vec3 mean{};
  for (const Corner& corner : t) {
    for (int i = 0; i < 3; ++i) mean[i] += corner.color[i] / 3;
  }
  const auto [red, green, blue] = to_srgb(mean);
  // An outline of the same colour closes the gaps between neighbours.
  out << "<path d=\"M" << t[0].x << ' ' << t[0].y << 'L' << t[1].x << ' ' << t[1].y << ' ' << t[2].x
      << ' ' << t[2].y << "z\" color=\"#" << std::hex << std::setfill('0') << std::setw(2) << red
      << std::setw(2) << green << std::setw(2) << blue << std::dec << "\"/>\n";
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

void write_svg(const Sheet& sheet, const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << sheet.width << "\" height=\""
      << sheet.height << "\" viewBox=\"0 0 " << sheet.width << ' ' << sheet.height << "\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      << "<g fill=\"currentColor\" stroke=\"currentColor\" stroke-width=\"0.6\" "
         "stroke-linejoin=\"round\">\n";
  for (const Panel& panel : sheet.panels) {
    for (const auto& triangle : panel.triangles) write_triangle(out, triangle);
  }
  out << "</g>\n";
  for (const Panel& panel : sheet.panels) {
    out << "<text x=\"" << panel.center << "\" y=\"" << panel.baseline << "\" font-size=\""
        << sheet.text_size << "\" font-family=\"DejaVu Sans, sans-serif\" text-anchor=\"middle\">"
        << escaped(panel.caption) << "</text>\n";
  }
  out << "</svg>\n";
  const std::string text = out.str();
  if (!platform::write_output_file(path.string(), std::as_bytes(std::span(text))))
    throw std::runtime_error("draw_mesh: cannot write " + path.string());
}

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
