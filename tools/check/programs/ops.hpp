// Self-test of ops: compares values and derivatives on each backend with the evaluator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../../api/check_backends.hpp"
#include "../../../runtime/rows/compositions.hpp"

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
  Worst derivative;     ///< derivative by any operand
  std::string refused;  ///< why the device does not take the op's kernel; then nothing is compared
};

/// One basic operation of f64 on one backend, compared with the host's to the bit.
struct ArithmeticResult {
  std::string op, backend, device;
  bool emulated = false;          ///< by 32-bit integers
  std::uint64_t differences = 0;  ///< NaN equals any NaN
  std::vector<double> at;         ///< operands of the first difference
  double got = 0, expected = 0;
};

struct OpsReport {
  std::vector<OpResult> results;
  std::uint64_t operands = 0;  ///< triples of operands of `arithmetic`
  std::vector<ArithmeticResult> arithmetic;
  std::size_t broken = 0;  ///< number of points, for values and derivatives together
};

inline constexpr std::uint64_t kDefaultOperands = 100'000;
inline constexpr std::string_view kBasicOperations = "basic";

/// Runs every op of the table at special values (zeros of both signs, subnormals, infinities, NaN,
/// ends of domains and their neighbours) in all combinations, and at `count` random points (default
/// 2,000): ordinary points inside the domain, numbers of all magnitudes, angles up to 1e9.
///
/// A value is compared by ir::deviation(), a derivative by the running error bound of its program
/// in long double. Derivatives are not compared at points where a jump may go either way. If the
/// device does not compute sums of two subnormal numbers, subnormal operands and results are
/// skipped, and so are derivatives and composite ops with subnormal intermediate results.
///
/// In f64, it also compares + - * / sqrt fma abs neg, floor, ceil, trunc, round and comparisons
/// with the host's, bit for bit, on `operands` triples: random bits, neighbours of powers of two,
/// subnormals, halfway cases of sums and products. Native fma may round twice, as drivers do.
///
///   only  name of one op, or kBasicOperations for this comparison alone; empty: everything
OpsReport check_ops(const Options& options, std::uint64_t operands = kDefaultOperands,
                    std::string_view only = {});
/// The same on backends that the caller has opened.
OpsReport check_ops(const Options& options, std::span<const CheckedBackend> backends,
                    std::uint64_t operands = kDefaultOperands, std::string_view only = {});

/// Operands of the check: one column per operand, rounded to the precision.
runtime::Columns op_points(ir::Op op, Precision precision, std::uint64_t count, std::uint64_t seed);

struct PairsOptions : Options {
  /// Runs every N-th ordered pair, beginning with one chosen by the seed; >= 1.
  std::uint64_t every = 1;
  std::uint64_t triples = 500;  ///< number of random triples; `count` is ignored
};

/// One number outside of its bound.
struct PairFailure {
  std::string backend, device;
  Precision precision = Precision::f64;
  runtime::WrongNumber number;
};

struct PairsReport {
  std::uint64_t pairs = 0, triples = 0;  ///< compositions
  std::uint64_t compared = 0;            ///< numbers compared, on all backends together
  std::uint64_t undecided = 0;           ///< numbers without a known bound
  std::vector<std::string> wrong;        ///< compositions with a failure, without duplicates
  std::vector<PairFailure> failures;     ///< first failing number of each kernel and backend
};

/// Runs all ordered pairs of ops on numbers, and a sample of triples, at 64 ordinary and special
/// points: one kernel computes values, a second one values and derivatives. Each number is compared
/// with the running error bound of its program in long double.
///
/// Throws Error{InvalidArgument} for every = 0. Cost: two kernels per composition, backend and
/// precision.
PairsReport check_pairs(const PairsOptions& options);
/// The same on backends that the caller has opened.
PairsReport check_pairs(const PairsOptions& options, std::span<const CheckedBackend> backends);

}  // namespace topograd::check
