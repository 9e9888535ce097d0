// springs(W): a grid of springs with four anchored corners.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::problems {

/// A spring between two vertices, or an anchor of one vertex.
struct Spring {
  static constexpr std::uint32_t kAnchor = ~std::uint32_t{0};
  std::uint32_t a = 0, b = 0;  ///< vertices; b = kAnchor: `target` attracts x_a
  double rest = 0;
  std::array<double, 3> target = {};
};

/// The grid as numbers, from which springs() makes a problem.
struct SpringGrid {
  std::vector<double> x;        ///< three coordinates per vertex
  std::vector<Spring> springs;  ///< of the share
};
/// Arguments and errors as for springs().
SpringGrid spring_grid(std::uint32_t width, std::optional<std::uint64_t> shuffle = {},
                       Share share = {});
/// Adds the residuals of springs, in their order.
void add_springs(Problem& problem, const Parameters& x, std::span<const Spring> springs);

/// The problem and its memory.
struct Springs {
  std::vector<double> x;  ///< W² vertices, three coordinates each
  Problem problem;
};

/// Vertices k = 0 .. W²−1 with i = k mod W, j = ⌊k/W⌋ start at (i + 0.1 sin k, j + 0.1 cos 3k, 0.1
/// sin 7k). Edges (k, k+1), (k, k+W), (k, k+W+1) inside the grid have rest lengths L = 1, 1, √2 and
/// residual ‖x_a − x_b‖ − L; the four corners have x_k − (1.1 i, 1.1 j, 0), three rows.
///
///   width    W >= 2
///   shuffle  seed of a permutation of vertices and residuals; none = grid order
///   share    of the residuals, in their order
///
/// Throws Error{InvalidArgument} for a width below 2 or with more than 2³² scalars.
std::unique_ptr<Springs> springs(std::uint32_t width, std::optional<std::uint64_t> shuffle = {},
                                 Share share = {});

}  // namespace topograd::problems
