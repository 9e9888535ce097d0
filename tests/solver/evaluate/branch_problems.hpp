// Problems with branches, each also with select() instead.
#pragma once

#include "../../../frontend/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::test {

/// Spelling of branches.
enum class Written { by_if, by_select };

/// n unknowns pulled to targets by springs that are stiff in compression and soft in tension: each
/// changes its target's side on the way from `start`. Neighbours are coupled.
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
