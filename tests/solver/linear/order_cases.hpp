// Problems whose residuals are added in several orders.
#pragma once

#include "../../../solver/options.hpp"

namespace topograd::test {

/// Solves arap, bundle and springs with residuals in the order of their definition and in two
/// others: the first steps and the minimum agree up to rounding.
void expect_order_does_not_matter(const SolverOptions& options);

}  // namespace topograd::test
