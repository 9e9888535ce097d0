// The radius of the trust region.
#include <topograd/solver/trust_region.hpp>

#include <algorithm>
#include <cmath>

namespace topograd {

TrustRegion::TrustRegion(double radius, double largest)
    : radius_(std::min(radius, largest)), largest_(largest) {}

void TrustRegion::accepted(double gain) {
  const double growth = 1 / std::max(1.0 / 3, 1 - std::pow(2 * gain - 1, 3));
  radius_ = std::min(largest_, radius_ * growth);
  shrink_ = 2;
}

void TrustRegion::rejected() {
  radius_ /= shrink_;
  shrink_ *= 2;
}

void TrustRegion::invalid() { radius_ /= 2; }

}  // namespace topograd
