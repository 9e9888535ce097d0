// Problems with branches, each also without: by select().
#pragma once

#include "../../../frontend/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::test {

/// How branches are written.
enum class Written { by_if, by_select };

/// n unknowns drawn to targets by springs that are stiff when pressed and soft when stretched: each
/// crosses its target's side on the way from `start`. Neighbours are tied to each other.
///
///   r = x_i < t_i ? 3 (x_i - t_i) + (x_i - t_i)^2 : 0.8 (x_i - t_i)
struct SidedSprings {
  SidedSprings(std::size_t n, double start, Written written);

  std::vector<double> x, targets;
  std::vector<std::uint32_t> indices;
  Problem problem;
  Parameters parameters;
  Residuals springs;
};

}  // namespace topograd::test
