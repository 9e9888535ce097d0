// Problems of which the residuals are added in two orders.
#pragma once

#include "../../../solver/options.hpp"

namespace topograd::test {

/// arap, bundle and springs, each with its residuals in the order of its definition and in two
/// others: the same first steps, and the same minimum, but for rounding.
void expect_order_does_not_matter(const SolverOptions& options);

}  // namespace topograd::test
