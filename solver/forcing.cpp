// How exactly the linear system of each step is solved.
#include <topograd/solver/forcing.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

constexpr double kGamma = 0.9;
constexpr double kFirst = 0.1, kLoosest = 0.5;
constexpr double kSafeguard = 0.1;  ///< above it the tolerance falls no faster than quadratically
constexpr double kRefused = 0.1;

}  // namespace

Forcing::Forcing(ForcingSequence sequence, double tightest)
    : sequence_(sequence),
      tightest_(tightest),
      tolerance_(sequence == ForcingSequence::constant ? tightest : std::max(tightest, kFirst)) {}

void Forcing::moved(double gradient_norm) {
  const double last = std::exchange(last_norm_, gradient_norm);
  if (sequence_ == ForcingSequence::constant || !(last > 0) || !std::isfinite(gradient_norm))
    return;
  const double ratio = gradient_norm / last;
  double next = kGamma * ratio * ratio;
  const double bound = kGamma * tolerance_ * tolerance_;
  if (bound > kSafeguard) next = std::max(next, bound);
  tolerance_ = std::clamp(next, tightest_, std::max(tightest_, kLoosest));
}

void Forcing::refused() {
  if (sequence_ != ForcingSequence::constant)
    tolerance_ = std::max(tightest_, kRefused * tolerance_);
}

}  // namespace topograd
