// The stopping test of conjugate gradients by the gain of their model.
#pragma once

namespace topograd::runtime {

/// Tests if conjugate gradients have gained most of the decrease of the quadratic model
/// Q(x) = xᵀA x − 2 bᵀx: i (Qᵢ − Qᵢ₋₁) / Qᵢ < η after iteration i.
///
/// Source: Nash, Sofer, Assessing a search direction within a truncated-Newton method, Operations
/// Research Letters 9 (1990); Ceres' η.
class GainTest {
 public:
  ///   eta  0: never
  explicit GainTest(double eta) : eta_(eta) {}
  /// Call after each iteration.
  ///
  ///   gain  Qᵢ₋₁ − Qᵢ = α rᵀz
  bool enough(double gain) {
    sum_ += gain;
    return ++iterations_ * gain < eta_ * sum_;
  }

 private:
  double eta_, sum_ = 0;
  int iterations_ = 0;
};

}  // namespace topograd::runtime
