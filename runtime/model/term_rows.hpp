// The numbers that instances of a term read, as rows.
#pragma once

#include "../rows/rows.hpp"
#include "model.hpp"

#include <cstddef>
#include <span>

namespace topograd::runtime {

/// What the leaves of a term's programs read in the instances [first, first + count).
///
///   x  model.scalars numbers
Rows rows_of(const Model& model, const Term& term, std::span<const double> x, std::size_t first,
             std::size_t count);

}  // namespace topograd::runtime
