// The order in which the fronts of a factorisation run on several threads.
#pragma once

#include "../../factor/factor_plan.hpp"
#include "../tiles/pool.hpp"

#include <cstddef>
#include <cstdint>

namespace topograd::runtime::cpu {

/// Calls front(f) for all fronts, children before their parents.
template <class F>
void upward(const FactorPlan& plan, Pool& pool, const F& front) {
  pool.for_ranges(plan.tasks.size(), 1, [&](std::size_t t, std::size_t) {
    for (std::uint32_t f = plan.tasks[t].begin; f < plan.tasks[t].end; ++f) front(f);
  });
  for (std::size_t l = 0; l + 1 < plan.level_starts.size(); ++l) {
    const std::uint32_t first = plan.level_starts[l];
    pool.for_ranges(plan.level_starts[l + 1] - first, 1,
                    [&](std::size_t k, std::size_t) { front(plan.level_fronts[first + k]); });
  }
}

/// Calls front(f) for all fronts, parents before their children.
template <class F>
void downward(const FactorPlan& plan, Pool& pool, const F& front) {
  for (std::size_t l = plan.level_starts.size() - 1; l-- > 0;) {
    const std::uint32_t first = plan.level_starts[l];
    pool.for_ranges(plan.level_starts[l + 1] - first, 1,
                    [&](std::size_t k, std::size_t) { front(plan.level_fronts[first + k]); });
  }
  pool.for_ranges(plan.tasks.size(), 1, [&](std::size_t t, std::size_t) {
    for (std::uint32_t f = plan.tasks[t].end; f-- > plan.tasks[t].begin;) front(f);
  });
}

}  // namespace topograd::runtime::cpu
