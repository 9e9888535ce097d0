// The problems of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981, that have any number of
// unknowns.
#pragma once

#include "mgh.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd::problems {

/// Their names: extended_rosenbrock, extended_powell, broyden_tridiagonal, broyden_banded,
/// discrete_boundary (each one topology), variably_dimensioned (two, one of which reads every
/// unknown).
const std::vector<std::string>& large_mgh_names();

/// Unknowns that a problem can have, at most.
std::uint32_t largest_mgh(const std::string& name);

/// One of them from its standard start. Where the paper's rows at the ends have fewer terms, x is
/// framed by constant zeros, so that all rows are one topology. The minimum is 0.
///
///   count  4 .. largest_mgh(name), a multiple of 4
///
/// Throws Error{InvalidArgument} for a count or a name that is none.
std::unique_ptr<Mgh> large_mgh(const std::string& name, std::uint32_t count);

}  // namespace topograd::problems
