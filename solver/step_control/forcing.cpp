// Tolerance of the linear system of each step.
#include "forcing.hpp"

#include "../../ir/machine/state_record.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

constexpr double kLoosest = 0.5;
constexpr double kSafeguard = 0.1;  ///< above it the tolerance falls no faster than quadratically
constexpr double kRefused = 0.1;
constexpr double kTrusted = 1e-2;  ///< a step that is solved so exactly may be the last

}  // namespace

Forcing::Forcing(ForcingSequence sequence, double tightest)
    : gamma_(forcing_gamma(sequence)),
      tightest_(tightest),
      tolerance_(tightest),
      loosest_(std::max(tightest, kLoosest)) {}

void Forcing::moved(double gradient_norm) {
  const double last = std::exchange(last_norm_, gradient_norm);
  if (!is_loose() || !(last > 0) || !std::isfinite(gradient_norm)) return;
  const double ratio = gradient_norm / last;
  double next = gamma_ * ratio * ratio;
  const double bound = gamma_ * tolerance_ * tolerance_;
  if (bound > kSafeguard) next = std::max(next, bound);
  tolerance_ = std::clamp(next, tightest_, loosest_);
}

bool Forcing::trusts_last() {
  if (!is_loose() || tolerance_ <= std::max(tightest_, kTrusted)) return true;
  loosest_ = std::max(tightest_, kRefused * tolerance_);
  return false;
}

void Forcing::transfer(ir::StateRecord& record) {
  record.value("linear tolerance", tolerance_);
  record.value("loosest linear tolerance", loosest_);
  record.value("gradient norm before", last_norm_);
}

void Forcing::refused() {
  if (is_loose()) tolerance_ = std::max(tightest_, kRefused * tolerance_);
}

}  // namespace topograd
