// Self-test with random programs: backends against the evaluator, optimised against unoptimised,
// forward against reverse.
#pragma once

#include "runners.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::check {

/// One thing that went wrong, as small as it could be made.
struct Failure {
  std::uint64_t seed = 0;  ///< of the program
  std::string kind;        ///< "node", "value", "optimised" or "derivative"
  std::string backend, device;
  Precision precision = Precision::f64;
  std::string message;  ///< what was expected and what came
  std::string program;  ///< IR text
};

struct RandomReport {
  std::uint64_t programs = 0;
  std::uint64_t nodes = 0;       ///< compared one by one, all places together
  std::uint64_t end_to_end = 0;  ///< programs with a finite output compared, a precision each
  std::uint64_t undecided = 0;   ///< programs with a comparison or jump inside its error bound
  double undecided_share = 0;    ///< of programs times precisions
  double rarest_op_share = 0;    ///< of the programs that hold the rarest op of the table
  std::string rarest_op;
  double rarest_special_share = 0;  ///< likewise, of the special values among the points
  std::uint64_t failures_in_all = 0;
  std::vector<Failure> failures;  ///< the first of them, shrunk

  /// A failure, or more than kMostUndecided undecided; of fewer than 1,000 programs, more by three
  /// standard deviations.
  bool broken() const;
};

/// Share of undecided programs above which the check has not shown enough.
inline constexpr double kMostUndecided = 0.05;

/// Checks `count` programs (200) of 20 to 200 nodes, drawn from every op of the table.
///
/// Node by node: each program is evaluated by the scalar evaluator at four points, three of which
/// hold special values; every node is computed again by each place from the evaluator's operands
/// and compared with ir::deviation(). Nodes of many programs share one kernel an op. End to end, at
/// an ordinary point: the program as it is and optimised, and its derivatives in forward and in
/// reverse mode, on the evaluator and on the interpreter (and every kDeviceStride-th on a device),
/// each within the running error bound of its own program in long double, and so of each other.
///
/// The same seed gives the same programs on every machine.
RandomReport check_random(const Options& options);
/// The same on places that the caller has opened.
RandomReport check_random(const Options& options, std::span<const Place> places);

/// Every so-manyth program goes through a device from end to end: each needs a shader of its own.
inline constexpr std::uint64_t kDeviceStride = 200;

/// The program of a seed; 20 to 200 nodes.
ir::Program numbered_program(std::uint64_t seed);

}  // namespace topograd::check
