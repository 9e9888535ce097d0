// The problems of variable size of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981.
#pragma once

#include "mgh.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd::problems {

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
