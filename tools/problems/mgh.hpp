// Small problems, and problems of any size, of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981.
#pragma once

#include "../../frontend/problem.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace topograd::problems {

/// One of these problems.
struct MghProblem {
  std::string name;
  std::vector<double> start;   ///< the standard start
  std::vector<double> minima;  ///< published Σ r² that count as solved
  std::function<void(Problem&, const Parameters&)> build;
};

/// The table of nineteen: standard starts and published minima.
const std::vector<MghProblem>& mgh_problems();

/// One of these problems and its memory.
struct Mgh {
  std::vector<double> x;
  Problem problem;
};

///   factor  multiple of the standard start
std::unique_ptr<Mgh> mgh(const MghProblem& row, double factor = 1);

/// Number of digits in which the cost ½ Σ r² agrees with the nearest of these sums of squares f:
/// −log₁₀ (|2 cost − f| / f), without the division if f = 0; within 0 .. 15, and 0 for NaN.
double mgh_digits(double cost, const std::vector<double>& minima);
/// True if four digits agree: |2 cost − f| / f <= 10⁻⁴.
bool is_mgh_minimum(double cost, const std::vector<double>& minima);

/// Their names: extended_rosenbrock, extended_powell, broyden_tridiagonal, broyden_banded,
/// discrete_boundary (one topology each), variably_dimensioned (two, one of which reads every
/// unknown).
const std::vector<std::string>& large_mgh_names();

/// Maximum number of unknowns of a problem.
std::uint32_t largest_mgh(const std::string& name);

/// One of the problems from its standard start. If the paper's first and last rows have fewer
/// terms, x is padded by constant zeros, so that all rows have one topology. The minimum is 0.
///
///   count  4 .. largest_mgh(name), a multiple of 4
///
/// Throws Error{InvalidArgument} for an invalid count or name.
std::unique_ptr<Mgh> large_mgh(const std::string& name, std::uint32_t count);

}  // namespace topograd::problems
