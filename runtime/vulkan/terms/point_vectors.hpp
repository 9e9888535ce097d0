// Vectors of a whole model at its point, on their way to the host.
#pragma once

#include "term_sums.hpp"

#include <span>

namespace topograd::runtime::vulkan {

/// Rows and sums of all terms, as Engine and SecondDerivatives have them.
class PointVectors : Part {
 public:
  /// All of these outlive it.
  PointVectors(const Part& part, TermRows& rows, TermSums& sums)
      : Part(part), rows_(rows), sums_(sums) {}

  void residuals(std::span<double> out);
  void gradient(std::span<double> out) { sum(Pass::gradient, out); }
  void jvp(std::span<const double> p, std::span<double> out);
  void jtjp(std::span<const double> p, std::span<double> out) { product(Pass::jtjp, p, out); }
  void hvp(std::span<const double> p, std::span<double> out) { product(Pass::hvp, p, out); }

  /// Reads StepVectors::result.
  Readback& readback() { return *readback_; }

 private:
  void product(Pass pass, std::span<const double> p, std::span<double> out);
  void sum(Pass pass, std::span<double> out);

  TermRows& rows_;
  TermSums& sums_;
  Derived<Readback> readback_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
