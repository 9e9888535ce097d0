// Leaf values of a term's instances, as rows.
#pragma once

#include "../rows/rows.hpp"
#include "model.hpp"

#include <cstddef>
#include <span>

namespace topograd::runtime {

/// Leaf values of a term's programs in the instances [first, first + count).
///
///   x  model.scalars numbers
Rows rows_of(const Model& model, const Term& term, std::span<const double> x, std::size_t first,
             std::size_t count);

}  // namespace topograd::runtime
