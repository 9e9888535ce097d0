// Reading the best point, also from engines that fail.
#include "solve_state.hpp"

namespace topograd {

int BestPoint::fetch(runtime::Engine& engine, const runtime::Model& model, int accepted) noexcept {
  std::vector<double> best = x;
  int lost = 0;
  try {
    engine.point(best);
  } catch (...) {
    best = x;
    try {
      runtime::KnownPoint& known = *engine.abilities().known_point;
      if (!known.last_known_point(best)) return accepted;
      lost = static_cast<int>(known.steps_after_known_point());
    } catch (...) {
      return accepted;
    }
  }
  take(best, model);
  return lost;
}

void BestPoint::fetch_elsewhere() noexcept {
  try {
    if (elsewhere.read) elsewhere.read();
  } catch (...) {
    return;  // x is the best point that is known
  }
}

void BestPoint::take(std::span<const double> best, const runtime::Model& model) noexcept {
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (model.constant.empty() || !model.constant[k]) x[k] = best[k];
  }
}

}  // namespace topograd
