// A sheet drawn as SVG: flat triangles painted from far to near.
#include "svg.hpp"

#include "../../ir/machine/output_file.hpp"

#include <iomanip>
#include <span>
#include <sstream>
#include <stdexcept>

namespace topograd::draw {
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

}  // namespace topograd::draw
