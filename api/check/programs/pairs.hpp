// Self-test of functions of functions: what a driver's compiler makes of ops beside each other.
#pragma once

#include "../../../runtime/rows/compositions.hpp"
#include "runners.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::check {

struct PairsOptions : Options {
  /// Every N-th ordered pair is run, beginning with one that the seed chooses; >= 1.
  std::uint64_t every = 1;
  std::uint64_t triples = 500;  ///< number of random triples; `count` is not read
};

/// One number beyond its bound.
struct PairFailure {
  std::string backend, device;
  Precision precision = Precision::f64;
  runtime::WrongNumber number;
};

struct PairsReport {
  std::uint64_t pairs = 0, triples = 0;  ///< compositions
  std::uint64_t compared = 0;            ///< numbers, all places together
  std::uint64_t undecided = 0;           ///< numbers of which no bound is known
  std::vector<std::string> wrong;        ///< compositions with a failure, each once
  std::vector<PairFailure> failures;     ///< the first number of each kernel and place
};

/// Runs all ordered pairs of ops that take and give numbers, and a sample of triples, at 64
/// ordinary and special points: values in a kernel of their own, values and derivatives in a second
/// one. Each number is compared with the running error bound of its program in long double.
///
/// Throws Error{InvalidArgument} for every = 0. Cost: two kernels a composition, place and
/// precision.
PairsReport check_pairs(const PairsOptions& options);
/// The same on places that the caller has opened.
PairsReport check_pairs(const PairsOptions& options, std::span<const Place> places);

}  // namespace topograd::check
