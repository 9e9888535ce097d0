// The gain ratio of steps, and the radius of the trust region.
#include "trust_region.hpp"

#include <algorithm>
#include <cmath>

#include "../../ir/machine/state_record.hpp"

namespace topograd {
namespace {

constexpr double kMostGrowth = 3;
// A slow step is good from this gain on, and its radius grows so much more.
constexpr double kGood = 0.7, kGrowthOfSlow = 1.5;

}  // namespace

void Gain::start(double cost) { minimum_ = current_ = reference_ = candidate_ = cost; }

void Gain::transfer(ir::StateRecord& record) {
  record.in_range("steps since the minimum", steps_, 0, 1 << 30);
  record.value("minimum", minimum_);
  record.value("current cost", current_);
  record.value("reference cost", reference_);
  record.value("candidate cost", candidate_);
  record.value("predicted since reference", predicted_since_reference_);
  record.value("predicted since candidate", predicted_since_candidate_);
}

double Gain::ratio(double cost, double predicted) const {
  return std::max((current_ - cost) / predicted,
                  (reference_ - cost) / (predicted_since_reference_ + predicted));
}

void Gain::accepted(double cost, double predicted) {
  current_ = cost;
  predicted_since_candidate_ += predicted;
  predicted_since_reference_ += predicted;
  if (cost < minimum_) {
    minimum_ = candidate_ = cost;
    steps_ = 0;
    predicted_since_candidate_ = 0;
    return;
  }
  ++steps_;
  if (cost > candidate_) {
    candidate_ = cost;
    predicted_since_candidate_ = 0;
  }
  if (steps_ == max_steps_) {
    reference_ = candidate_;
    predicted_since_reference_ = predicted_since_candidate_;
  }
}

TrustRegion::TrustRegion(double radius, double largest, bool dogleg)
    : radius_(std::min(radius, largest)), largest_(largest), dogleg_(dogleg) {}

double TrustRegion::next_first(double last, double first) {
  constexpr double kLeast = 1e-2;
  return std::clamp(last, std::min(kLeast, first), first);
}

void TrustRegion::accepted(double gain, double step, bool slow) {
  if (dogleg_) {
    if (gain < 0.25) radius_ /= 2;
    if (gain > 0.75) radius_ = std::min(largest_, std::max(radius_, 3 * step));
    return;
  }
  const double excess = 2 * gain - 1;
  const double cube = excess * excess * excess;  // std::pow may have other bits elsewhere
  double growth = 1 / std::max(1.0 / kMostGrowth, 1 - cube);
  if (slow && gain > kGood) growth = std::min(kMostGrowth, kGrowthOfSlow * growth);
  radius_ = std::min(largest_, radius_ * growth);
  shrink_ = 2;
}

bool TrustRegion::widen(double factor, double most) {
  if (!(factor * radius_ <= std::min(largest_, most))) return false;
  radius_ *= factor;
  shrink_ = 2;
  return true;
}

void TrustRegion::restart(double radius) {
  radius_ = radius;
  largest_ = std::max(largest_, radius);
  shrink_ = 2;
}

void TrustRegion::extend(double most) {
  radius_ = largest_ = std::max(largest_, std::min(most, kMostGrowth * largest_));
}

void TrustRegion::limit(double share) {
  largest_ = share * radius_;
  radius_ = largest_;
}

void TrustRegion::rejected() {
  radius_ /= shrink_;
  if (!dogleg_) shrink_ *= 2;
}

void TrustRegion::transfer(ir::StateRecord& record) {
  record.value("radius", radius_);
  record.value("largest radius", largest_);
  record.value("shrink", shrink_);
}

void TrustRegion::invalid() {
  // The dogleg strategy damps its Gauss–Newton step more instead.
  if (!dogleg_) radius_ /= 2;
}

}  // namespace topograd
