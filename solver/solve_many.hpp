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
  friend class ManyTrace;
  Parameters x_;
  std::vector<Data> data_;
};

/// The tracing of solve_many().
class ManyTrace {
 public:
  ManyTrace(std::size_t count, std::span<double> starts, const ManyOptions& many);
  ~ManyTrace();
  ManyTrace(const ManyTrace&) = delete;
  ManyTrace& operator=(const ManyTrace&) = delete;

  const One& one() const { return one_; }
  void add(const Value& row) { add_block({&row, 1}); }
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
  Summary solve(const SolverOptions& options);

 private:
  void add_block(std::span<const Value> rows);

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
/// Minimises copies of a problem, whose numbers from code_of() are replaced by those of each copy.
/// The prototype's rows, bounds, constants, manifolds and losses are every copy's.
///
///   x  the parameters of each copy, one copy after the other: starts, and the results
Summary solve_copies(const Problem& prototype, std::size_t count, std::span<double> x,
                     std::span<const ManyData> data, const SolverOptions& options);

/// Minimises ½ Σ ρ(r²) for each of `count` problems of one structure. `f` takes a const One& and
/// returns one problem's residuals: a Value, or a container of Values or of arrays of Values, each
/// of which is a residual block, so that its rows share what they have in common. It is traced
/// once.
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
  ManyTrace trace(count, starts, many);
  trace.add(f(trace.one()));
  return trace.solve(options);
}

}  // namespace topograd
