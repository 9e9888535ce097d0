// Quantises, encodes and decodes frames.
#include "frame.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace topograd::view {
namespace {

constexpr double kCells = 65535;
constexpr double kRoom = 3;  // sides of a grid in sides of the box of its points
constexpr double kColors8 = 255;

std::uint16_t cell_of(double x, double origin, double step) {
  const double cell = std::nearbyint((x - origin) / step);
  return std::isfinite(cell) ? static_cast<std::uint16_t>(std::clamp(cell, 0.0, kCells)) : 0;
}

bool holds(const Grid& grid, std::span<const double> positions) {
  if (!(grid.step > 0)) return false;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    const double cell = (positions[k] - grid.origin[k % 3]) / grid.step;
    if (std::isfinite(cell) && (cell < 0 || cell > kCells)) return false;
  }
  return true;
}

void append(std::string& out, std::uint16_t value) {
  constexpr unsigned kByte = 8;
  out += static_cast<char>(value & 0xffU);
  out += static_cast<char>(value >> kByte);
}

/// How the positions of one block are written.
BlockBits form_of(std::span<const std::uint16_t> cells, std::span<const std::uint16_t> base) {
  if (base.empty()) return kLarge;
  constexpr int kLeast = -128, kMost = 127;
  bool same = true;
  for (std::size_t k = 0; k < cells.size(); ++k) {
    const int difference = int{cells[k]} - int{base[k]};
    same = same && difference == 0;
    if (difference < kLeast || difference > kMost) return kLarge;
  }
  return same ? kNoChange : kSmall;
}

template <class T>
std::span<const T> part(const std::vector<T>& all, std::size_t from, std::size_t count) {
  return std::span(all).subspan(from, count);
}

/// The bytes that are left of a payload.
struct Reader {
  std::string_view rest;

  std::string_view take(std::size_t count) {
    if (rest.size() < count) throw Error(ErrorCode::Parse, "frame: expected more bytes");
    const std::string_view out = rest.substr(0, count);
    rest.remove_prefix(count);
    return out;
  }
};

}  // namespace

Grid grid_for(std::span<const double> positions) {
  std::array<double, 3> low{}, high{};
  bool any = false;
  for (std::size_t k = 0; k + 2 < positions.size(); k += 3) {
    const std::span<const double> p = positions.subspan(k, 3);
    if (!std::ranges::all_of(p, [](double x) { return std::isfinite(x); })) continue;
    for (std::size_t c = 0; c < 3; ++c) {
      low[c] = any ? std::min(low[c], p[c]) : p[c];
      high[c] = any ? std::max(high[c], p[c]) : p[c];
    }
    any = true;
  }
  double side = 0;
  for (std::size_t c = 0; c < 3; ++c) side = std::max(side, high[c] - low[c]);
  if (!(side > 0) || !std::isfinite(side)) side = 1;
  Grid grid{.origin = {}, .step = kRoom * side / kCells};
  for (std::size_t c = 0; c < 3; ++c)
    grid.origin[c] = (low[c] + high[c]) / 2 - grid.step * kCells / 2;
  return grid;
}

Quantised quantise(const Frame& frame, const Grid& grid) {
  Quantised out{.number = frame.number,
                .grid = holds(grid, frame.positions) ? grid : grid_for(frame.positions),
                .cells = std::vector<std::uint16_t>(frame.positions.size()),
                .colors = std::vector<std::uint8_t>(frame.values.size())};
  for (std::size_t k = 0; k < out.cells.size(); ++k)
    out.cells[k] = cell_of(frame.positions[k], out.grid.origin[k % 3], out.grid.step);
  const double width = frame.high - frame.low;
  for (std::size_t k = 0; k < out.colors.size(); ++k) {
    const double share = width > 0 ? (frame.values[k] - frame.low) / width : 0;
    out.colors[k] = static_cast<std::uint8_t>(
        std::isfinite(share) ? std::nearbyint(kColors8 * std::clamp(share, 0.0, 1.0)) : 0);
  }
  return out;
}

std::string encode(const Quantised& frame, const Quantised* base) {
  const std::size_t points = frame.cells.size() / 3;
  std::string out;
  for (std::size_t first = 0; first < points; first += kBlockPoints) {
    const std::size_t count = std::min(kBlockPoints, points - first);
    const auto cells = part(frame.cells, 3 * first, 3 * count);
    const auto old = base == nullptr ? std::span<const std::uint16_t>()
                                     : part(base->cells, 3 * first, 3 * count);
    const BlockBits form = form_of(cells, old);
    const bool colors =
        !frame.colors.empty() &&
        (base == nullptr || base->colors.size() != frame.colors.size() ||
         !std::ranges::equal(part(frame.colors, first, count), part(base->colors, first, count)));
    out += static_cast<char>(form | (colors ? kColors : kNoChange));
    for (std::size_t k = 0; k < cells.size(); ++k) {
      if (form == kLarge) append(out, cells[k]);
      if (form == kSmall) out += static_cast<char>(int{cells[k]} - int{old[k]});
    }
    if (colors) out.append(reinterpret_cast<const char*>(&frame.colors[first]), count);
  }
  return out;
}

Quantised decode(std::string_view payload, std::size_t points, const Grid& grid,
                 const Quantised* base) {
  Quantised out{.grid = grid};
  if (base != nullptr) {
    if (base->cells.size() != 3 * points || base->grid != grid)
      throw Error(ErrorCode::Parse, "frame: expected the grid and size of its base");
    out = *base;
  }
  out.cells.resize(3 * points);
  Reader reader{payload};
  for (std::size_t first = 0; first < points; first += kBlockPoints) {
    const std::size_t count = std::min(kBlockPoints, points - first);
    const auto bits = static_cast<std::uint8_t>(reader.take(1)[0]);
    const auto cells = std::span(out.cells).subspan(3 * first, 3 * count);
    if ((bits & kSmall) != 0) {
      const std::string_view bytes = reader.take(cells.size());
      for (std::size_t k = 0; k < cells.size(); ++k)
        cells[k] = static_cast<std::uint16_t>(cells[k] + static_cast<signed char>(bytes[k]));
    } else if ((bits & kLarge) != 0) {
      const std::string_view bytes = reader.take(2 * cells.size());
      for (std::size_t k = 0; k < cells.size(); ++k)
        cells[k] = static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[2 * k]) |
                                              static_cast<unsigned char>(bytes[2 * k + 1]) << 8U);
    }
    if ((bits & kColors) != 0) {
      out.colors.resize(points);
      std::memcpy(&out.colors[first], reader.take(count).data(), count);
    }
  }
  if (!reader.rest.empty()) throw Error(ErrorCode::Parse, "frame: expected fewer bytes");
  return out;
}

}  // namespace topograd::view
