// Self-test of the ops: value and derivatives of each, on each backend, against the evaluator.
#pragma once

#include "runners.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace topograd::check {

/// The largest deviation found, and where.
struct Worst {
  double ulp = 0;  ///< of the exact result; infinity where a NaN, infinity or zero's sign is wrong
  std::vector<double> at;  ///< operands
  double got = 0, expected = 0;
  std::size_t broken = 0;  ///< points at which a bound was broken; `at` is then the first of them
};

/// One op on one backend in one precision.
struct OpResult {
  std::string op, backend, device;
  Precision precision = Precision::f64;
  std::size_t points = 0;
  double bound = 0;  ///< of the value, in ulp; composite ops: 0, they are as exact as their parts
  Worst value;
  Worst derivative;  ///< by any of the operands
};

struct OpsReport {
  std::vector<OpResult> results;
  std::size_t broken = 0;  ///< points, values and derivatives together
};

/// Runs every op of the table at special values (zeros of both signs, subnormals, infinities, NaN,
/// ends of domains and their neighbours) against each other, and at `count` random points (2,000):
/// ordinary ones inside the domain, numbers of all magnitudes, angles up to 1e9.
///
/// A value is compared with ir::deviation(), a derivative with the running error bound of its
/// program in long double. Points at which a jump may go either way are left out of the
/// derivatives. Where the device does not keep the sum of two subnormal numbers, subnormal operands
/// and results are left out, and derivatives and composite ops that have one on the way.
OpsReport check_ops(const Options& options);
/// The same on places that the caller has opened.
OpsReport check_ops(const Options& options, std::span<const Place> places);

/// Operands of the check: one column an operand, numbers of the precision.
runtime::Columns op_points(ir::Op op, Precision precision, std::uint64_t count, std::uint64_t seed);

}  // namespace topograd::check
