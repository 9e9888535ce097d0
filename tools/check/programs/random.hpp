// Self-test with random programs: compares backends with the evaluator, optimised with unoptimised
// programs, and forward with reverse mode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../../api/check_backends.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/evaluate.hpp"

namespace topograd::check {

/// One failure, reduced to a small program.
struct Failure {
  std::uint64_t seed = 0;  ///< seed of the program
  std::string kind;        ///< "node", "value", "optimised" or "derivative"
  std::string backend, device;
  Precision precision = Precision::f64;
  std::string message;  ///< expected and actual result
  std::string program;  ///< IR text
};

struct RandomReport {
  std::uint64_t programs = 0;
  std::uint64_t nodes = 0;  ///< nodes compared individually, on all backends together
  /// Programs, for each precision, with a finite output that was compared.
  std::uint64_t end_to_end = 0;
  std::uint64_t undecided = 0;  ///< programs with a comparison or jump inside its error bound
  double undecided_share = 0;   ///< fraction of programs times precisions
  double rarest_op_share = 0;   ///< fraction of programs that contain the rarest op of the table
  std::string rarest_op;
  double rarest_special_share = 0;  ///< the same for the special values among the points
  std::uint64_t failures_in_all = 0;
  std::vector<Failure> failures;  ///< the first failures, shrunk

  /// True if there is a failure, or more than kMostUndecided programs are undecided (with fewer
  /// than 1,000 programs, plus three standard deviations).
  bool broken() const;
};

/// Fraction of undecided programs above which the check is not significant.
inline constexpr double kMostUndecided = 0.05;

/// Checks `count` programs (default 200) of 20 to 200 nodes with ops from the whole table.
///
/// Node by node: the scalar evaluator evaluates each program at four points, three of which have
/// special values; each backend then computes every node from the evaluator's operands, and the
/// result is compared by ir::deviation(). Nodes of many programs share one kernel per op.
///
/// End to end, at an ordinary point: the program unoptimised and optimised, and its derivatives in
/// forward and reverse mode, on the evaluator and on the interpreter (and every kDeviceStride-th
/// program on a device). Each result must be within the running error bound of its own program in
/// long double, and therefore near the others.
///
/// The same seed gives the same programs on every machine.
RandomReport check_random(const Options& options);
/// The same on backends that the caller has opened.
RandomReport check_random(const Options& options, std::span<const CheckedBackend> backends);

/// Every kDeviceStride-th program runs end to end on a device, because each needs its own shader.
inline constexpr std::uint64_t kDeviceStride = 200;

/// The program of a seed, with 20 to 200 nodes.
ir::Program numbered_program(std::uint64_t seed);

/// Rows of one op in one precision, with their programs.
struct OpRows {
  runtime::Columns operands = runtime::Columns(3);
  std::vector<std::uint64_t> seeds;
};

/// For each op, the operands of all nodes of the added programs.
using NodeTable = std::vector<OpRows>;

/// Adds the nodes of `program` (no composite ops) with the evaluator's values at `point`.
template <class T>
void add_nodes(const ir::Program& program, const ir::Inputs<T>& point, std::uint64_t seed,
               NodeTable& table);

/// Runs each op's rows on `backend` and reports nodes that exceed their bounds.
template <class T>
void compare_nodes(const NodeTable& table, const CheckedBackend& backend, RandomReport& report);

/// Stores a failure, up to a number that a person can read.
void keep(RandomReport& report, Failure failure);

/// Result for one program on one backend; `kind` is empty if nothing is wrong.
struct Finding {
  std::string kind, message;
  bool decided = true;
  bool finite = false;  ///< true if a finite output was compared
};

/// Runs a program and its derivatives; returns one number per program output.
using Run = std::function<std::vector<double>(const ir::Program&, const ir::Point&)>;

/// Compares the results of `run` for the program unoptimised, optimised, and differentiated in both
/// modes (by the finite output with the most nodes), each within its running error bound.
///
///   point  numbers of T; tangents and seeds are set here
template <class T>
Finding end_to_end(const ir::Program& program, const ir::Point& point, const Run& run);

}  // namespace topograd::check
