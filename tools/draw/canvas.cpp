// Renders a sheet to pixels: depth buffer, supersampling, text, PNG.
#include "canvas.hpp"

#include "../../ir/machine/output_file.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../../ir/machine/platform.hpp"

#include <ft2build.h>
#include FT_FREETYPE_H
#include <png.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
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
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, bands.size()), [&](const auto& range) {
    Samples samples{sheet.width * kSamples, 0, 0, {}, {}};
    for (std::size_t k = range.begin(); k < range.end(); ++k) {
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

}  // namespace topograd::draw
