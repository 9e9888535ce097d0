// solve_many(): one small problem, written once and solved for many sets of numbers.
#pragma once

#include "../frontend/problem.hpp"
#include "../frontend/value/math.hpp"
#include "options.hpp"
#include "summary.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

/// What the problems of solve_many() have besides their starts.
struct ManyOptions {
  /// Arrays of numbers, each with the same number of entries for every problem, one problem after
  /// the other: One::data(a, i) reads entry i of array a.
  std::vector<std::span<const double>> data = {};
  /// Of each residual.
  Loss loss = {};
  /// Bounds of the unknowns of every problem; both empty, or a number for each unknown.
  std::vector<double> lower = {}, upper = {};
};

/// The part of ManyOptions that holds for all solves of a ManySolver.
struct ManyShape {
  Loss loss = {};
  std::vector<double> lower = {}, upper = {};
  /// On a device: the host checks in f64 where each problem ended, gives the verdict, and goes on
  /// from there if it must. False: verdicts and costs are those of the device, in its precision,
  /// except of problems that its rules did not end; for programs with a check of their own.
  bool checks_ends = true;
};

/// One of the problems of solve_many(), all of which have its structure.
class One {
 public:
  /// Number of unknowns.
  std::size_t size() const { return static_cast<std::size_t>(x_.width()); }
  /// Unknown i.
  Value x(std::size_t i) const { return x_(0, static_cast<int>(i)); }
  /// Entries of array a.
  std::size_t entries(std::size_t a) const { return data_.at(a).size(); }
  /// Entry i of array a of ManyOptions::data, of this problem.
  Value data(std::size_t a, std::size_t i = 0) const { return data_.at(a)[i]; }

 private:
  friend class ManySolver;
  Parameters x_;
  std::vector<Data> data_;
};

/// One problem, traced once and solved for many sets of numbers, any number of times: solve_many()
/// for new starts and data without tracing, planning and compiling again.
class ManySolver {
 public:
  /// Traces `f`, as solve_many() does.
  ///
  ///   unknowns  of a problem
  ///   entries   numbers of a problem in each array of data
  ///
  /// Throws what solve_many() throws.
  template <class F>
  ManySolver(std::size_t unknowns, std::vector<std::size_t> entries, F&& f,
             const ManyShape& shape = {}, const SolverOptions& options = {})
      : ManySolver(unknowns, std::move(entries), shape, options) {
    add(f(one_));
    add_rest();
  }
  ~ManySolver();
  ManySolver(ManySolver&&) noexcept;
  ManySolver& operator=(ManySolver&&) noexcept;

  /// Minimises as many problems as there are starts. One thread at a time.
  ///
  ///   starts  (problems, unknowns); overwritten by the results of problems that took a step
  ///   data    arrays (problems, entries), in the order of the constructor
  ///
  /// Throws Error{InvalidArgument} for other sizes and starts outside of the bounds, and what the
  /// device throws.
  Summary solve(std::span<double> starts, std::span<const std::span<const double>> data = {});

 private:
  ManySolver(std::size_t unknowns, std::vector<std::size_t> entries, const ManyShape& shape,
             const SolverOptions& options);
  void add(const Value& row);
  template <class Rows>
  void add(const Rows& rows) {
    for (const auto& row : rows) {
      if constexpr (std::convertible_to<decltype(row), std::span<const Value>>) {
        add_block(row);
      } else {
        add(row);
      }
    }
  }
  void add_block(std::span<const Value> rows);
  void add_rest();

  struct Impl;
  std::unique_ptr<Impl> impl_;
  One one_;
};

/// Numbers of one array of data, of all problems.
struct ManyData {
  const double* numbers = nullptr;
  std::size_t width = 0;  ///< of each problem
};
/// A number that stands for an entry of ManyData in the rows of a prototype: a NaN.
double code_of(std::size_t array, std::size_t entry);
/// Minimises copies of a problem, whose rows, bounds, constants, manifolds and losses are every
/// copy's; numbers from code_of() are replaced by those of each copy. It does so any number of
/// times.
class CopiesSolver {
 public:
  ///   prototype    outlives it
  ///   widths       numbers of a copy in each array
  ///   checks_ends  ManyShape::checks_ends
  CopiesSolver(const Problem& prototype, std::vector<std::size_t> widths,
               const SolverOptions& options, bool checks_ends = true);
  ~CopiesSolver();

  ///   x     the parameters of each copy, one copy after the other: starts, and the results
  ///   data  the arrays
  Summary solve(std::size_t count, std::span<double> x, std::span<const double* const> data);

 private:
  class Copies;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
/// One solve of a CopiesSolver.
Summary solve_copies(const Problem& prototype, std::size_t count, std::span<double> x,
                     std::span<const ManyData> data, const SolverOptions& options);

namespace detail {

/// numbers / count; throws Error{InvalidArgument} that names `what` where it is not a whole number,
/// or 0.
std::size_t share_of(std::size_t numbers, std::size_t count, const std::string& what);

}  // namespace detail

/// Minimises ½ Σ ρ(r²) for each of `count` problems of one structure. `f` takes a const One& and
/// returns one problem's residuals: a Value, or a container of Values or of arrays of Values, each
/// of which is a residual block, so that its rows share what they have in common. So do Values of
/// one long computation, such as a simulation, if there is no loss. It is traced once.
///
///   starts  the unknowns of each problem, one problem after the other; overwritten by the results
///           of problems that took a step
///
/// Every problem has its own damping, steps and end, as in a solve of its own;
/// Summary::components has the results by problem, and the summary's termination is CONVERGENCE
/// only if that of all is. A problem without a value at its start ends with FAILURE, and the others
/// go on.
///
/// Throws Error{InvalidArgument} if starts or data are no multiples of `count`,
/// Error{EmptyProblem} without residuals, Error{Unsupported} for options that
/// Components::separate does not know, and what tracing throws.
template <class F>
Summary solve_many(std::size_t count, F&& f, std::span<double> starts, const ManyOptions& many = {},
                   const SolverOptions& options = {}) {
  const std::size_t unknowns = detail::share_of(starts.size(), count, "starts");
  std::vector<std::size_t> entries;
  for (const std::span<const double> numbers : many.data)
    entries.push_back(
        detail::share_of(numbers.size(), count,
                         "numbers in array " + std::to_string(entries.size()) + " of the data"));
  ManySolver solver(unknowns, std::move(entries), f, {many.loss, many.lower, many.upper}, options);
  return solver.solve(starts, many.data);
}

}  // namespace topograd
