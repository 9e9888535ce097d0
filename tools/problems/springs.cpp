// springs(W): a grid of springs with four anchored corners.
#include "springs.hpp"

#include "../../ir/error.hpp"

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "shuffle.hpp"

namespace topograd::problems {
namespace {

/// Keeps a slice of a list while it is made.
class KeptSprings {
 public:
  explicit KeptSprings(Slice slice) : slice_(slice) { springs_.reserve(slice.size()); }
  void add(const Spring& spring) {
    if (slice_.has(number_++)) springs_.push_back(spring);
  }
  std::vector<Spring> take() { return std::move(springs_); }

 private:
  Slice slice_;
  std::uint64_t number_ = 0;
  std::vector<Spring> springs_;
};

std::vector<Spring> springs_of(std::uint32_t w, Share share) {
  const std::uint64_t across = std::uint64_t{w} * (w - 1),
                      diagonal = std::uint64_t{w - 1} * (w - 1);
  KeptSprings out(share.slice(2 * across + diagonal + 4));
  for (std::uint32_t k = 0; k < w * w; ++k) {
    const bool right = k % w + 1 < w, up = k / w + 1 < w;
    if (right) out.add({k, k + 1, 1});
    if (up) out.add({k, k + w, 1});
    if (right && up) out.add({k, k + w + 1, std::sqrt(2.0)});
  }
  for (const std::uint32_t corner : {0u, w - 1, w * (w - 1), w * w - 1}) {
    const std::uint32_t i = corner % w, j = corner / w;
    out.add({corner, Spring::kAnchor, 0, {1.1 * i, 1.1 * j, 0.0}});
  }
  return out.take();
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

SpringGrid spring_grid(std::uint32_t width, std::optional<std::uint64_t> shuffle, Share share) {
  constexpr std::uint32_t kLargest = 37'837;  // 3 W² scalars have 32-bit indices
  if (width < 2 || width > kLargest) {
    throw Error(ErrorCode::InvalidArgument, "springs: expected a width in 2 .. " +
                                                std::to_string(kLargest) + ", got " +
                                                std::to_string(width));
  }
  SpringGrid grid{std::vector<double>(std::size_t{3} * width * width),
                  springs_of(width, shuffle ? Share{} : share)};
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
  if (shuffle && !share.is_whole()) {
    const Slice kept = share.slice(grid.springs.size());
    const auto begin = grid.springs.begin();
    grid.springs = {begin + static_cast<std::ptrdiff_t>(kept.first),
                    begin + static_cast<std::ptrdiff_t>(kept.end)};
  }
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

std::unique_ptr<Springs> springs(std::uint32_t width, std::optional<std::uint64_t> shuffle,
                                 Share share) {
  SpringGrid grid = spring_grid(width, shuffle, share);
  auto out = std::make_unique<Springs>();
  out->x = std::move(grid.x);
  add_springs(out->problem, out->problem.add_parameters(out->x, 3, "positions"), grid.springs);
  return out;
}

}  // namespace topograd::problems
