// Self-test of ops: compares values and derivatives on each backend with the evaluator.
#pragma once

#include "runners.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace topograd::check {

/// The largest deviation found, with its operands.
struct Worst {
  /// In ulp of the exact result; infinity for a wrong NaN, infinity or sign of zero.
  double ulp = 0;
  std::vector<double> at;  ///< operands
  double got = 0, expected = 0;
  std::size_t broken = 0;  ///< number of points that exceed a bound; `at` is then the first of them
};

/// One op on one backend in one precision.
struct OpResult {
  std::string op, backend, device;
  Precision precision = Precision::f64;
  std::size_t points = 0;
  /// For the value, in ulp; 0 for composite ops, which are as exact as their parts.
  double bound = 0;
  Worst value;
  Worst derivative;  ///< derivative by any operand
};

struct OpsReport {
  std::vector<OpResult> results;
  std::size_t broken = 0;  ///< number of points, for values and derivatives together
};

/// Runs every op of the table at special values (zeros of both signs, subnormals, infinities, NaN,
/// ends of domains and their neighbours) in all combinations, and at `count` random points (default
/// 2,000): ordinary points inside the domain, numbers of all magnitudes, angles up to 1e9.
///
/// A value is compared by ir::deviation(), a derivative by the running error bound of its program
/// in long double. Derivatives are not compared at points where a jump may go either way. If the
/// device does not compute sums of two subnormal numbers, subnormal operands and results are
/// skipped, and so are derivatives and composite ops with subnormal intermediate results.
OpsReport check_ops(const Options& options);
/// The same on backends that the caller has opened.
OpsReport check_ops(const Options& options, std::span<const Place> places);

/// Operands of the check: one column per operand, rounded to the precision.
runtime::Columns op_points(ir::Op op, Precision precision, std::uint64_t count, std::uint64_t seed);

}  // namespace topograd::check
