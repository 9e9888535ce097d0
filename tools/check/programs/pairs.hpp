// Self-test of compositions of ops, which drivers' compilers may transform.
#pragma once

#include "../../../api/check_backends.hpp"
#include "../../../runtime/rows/compositions.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::check {

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
PairsReport check_pairs(const PairsOptions& options, std::span<const Place> places);

}  // namespace topograd::check
