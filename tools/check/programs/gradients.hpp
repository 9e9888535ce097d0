// Self-test of whole problems: gradients of each backend against the scalar evaluator.
#pragma once

#include "../../../api/check_backends.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../runtime/model/model.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::check {

struct GradientResult {
  std::string problem, backend, device;
  Precision precision = Precision::f64;
  std::uint64_t unknowns = 0;
  double relative_difference = 0;  ///< ‖g − g₀‖ / ‖g₀‖, with g₀ from the evaluator in long double
  double bound = 0;

  bool broken() const { return !(relative_difference <= bound); }
};

/// Bound of the relative difference at well-conditioned points: 1e-10 in f64, 1e-5 in f32.
double gradient_bound(Precision precision);

/// Compares the gradient on each backend that the options select, at the problem's start with a
/// random perturbation of up to 1e-3 in each scalar, which avoids kinks. If a change of x by a unit
/// in the last place changes the gradient by more than a tenth of gradient_bound(), the bound is
/// ten times that change: near repeated eigenvalues f32 cannot do better.
///
///   name  for the results
///
/// Throws what make_model() and a forced device throw.
std::vector<GradientResult> check_gradient(const std::string& name, Problem& problem,
                                           const Options& options);

/// Gradient of the cost, including energies, by the scalar evaluator in long double, at x and data
/// rounded to the precision; zero for constant scalars. Single-threaded, one instance at a time.
std::vector<double> reference_gradient(const runtime::Model& model, std::span<const double> x,
                                       Precision precision);

/// ‖got − want‖ / ‖want‖, or ‖got‖ if want is zero.
double relative_difference(std::span<const double> got, std::span<const double> want);

}  // namespace topograd::check
