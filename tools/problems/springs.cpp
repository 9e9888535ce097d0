// springs(W): a grid of springs with four anchored corners.
#include "springs.hpp"

#include "../../ir/error.hpp"

#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "shuffle.hpp"

namespace topograd::problems {
namespace {

std::vector<Spring> all_springs(std::uint32_t w) {
  std::vector<Spring> out;
  out.reserve(std::size_t{3} * w * w);
  for (std::uint32_t k = 0; k < w * w; ++k) {
    const bool right = k % w + 1 < w, up = k / w + 1 < w;
    if (right) out.push_back({k, k + 1, 1});
    if (up) out.push_back({k, k + w, 1});
    if (right && up) out.push_back({k, k + w + 1, std::sqrt(2.0)});
  }
  for (const std::uint32_t corner : {0u, w - 1, w * (w - 1), w * w - 1}) {
    const std::uint32_t i = corner % w, j = corner / w;
    out.push_back({corner, Spring::kAnchor, 0, {1.1 * i, 1.1 * j, 0.0}});
  }
  return out;
}

void place_vertices(std::uint32_t w, const std::vector<std::uint32_t>& position,
                    std::vector<double>& x) {
  for (std::uint32_t k = 0; k < w * w; ++k) {
    double* vertex = &x[std::size_t{3} * position[k]];
    const std::uint32_t i = k % w, j = k / w;
    vertex[0] = i + 0.1 * std::sin(static_cast<double>(k));
    vertex[1] = j + 0.1 * std::cos(3.0 * k);
    vertex[2] = 0.1 * std::sin(7.0 * k);
  }
}

}  // namespace

SpringGrid spring_grid(std::uint32_t width, std::optional<std::uint64_t> shuffle) {
  constexpr std::uint32_t kLargest = 37'837;  // 3 W² scalars have 32-bit indices
  if (width < 2 || width > kLargest) {
    throw Error(ErrorCode::InvalidArgument, "springs: expected a width in 2 .. " +
                                                std::to_string(kLargest) + ", got " +
                                                std::to_string(width));
  }
  SpringGrid grid{std::vector<double>(std::size_t{3} * width * width), all_springs(width)};
  std::vector<std::uint32_t> position(width * width);
  std::iota(position.begin(), position.end(), 0u);
  if (shuffle) {
    std::mt19937_64 random(*shuffle);
    shuffle_in_place(position, random);
    shuffle_in_place(grid.springs, random);
    for (Spring& s : grid.springs) {
      s.a = position[s.a];
      if (s.b != Spring::kAnchor) s.b = position[s.b];
    }
  }
  place_vertices(width, position, grid.x);
  return grid;
}

void add_springs(Problem& problem, const Parameters& x, std::span<const Spring> springs) {
  for (const Spring& s : springs) {
    const Vec3 a = x.vec3(s.a);
    if (s.b == Spring::kAnchor) {
      const Vec3 corner = {s.target[0], s.target[1], s.target[2]};
      problem.add_residual(a - corner, {.label = "anchor"});
    } else {
      problem.add_residual(norm(a - x.vec3(s.b)) - s.rest, {.label = "spring"});
    }
  }
}

std::unique_ptr<Springs> springs(std::uint32_t width, std::optional<std::uint64_t> shuffle) {
  SpringGrid grid = spring_grid(width, shuffle);
  auto out = std::make_unique<Springs>();
  out->x = std::move(grid.x);
  add_springs(out->problem, out->problem.add_parameters(out->x, 3, "positions"), grid.springs);
  return out;
}

}  // namespace topograd::problems
