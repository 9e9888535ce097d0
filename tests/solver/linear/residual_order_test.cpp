// The order in which residuals were added does not matter to a solve; on the interpreter.
#include <gtest/gtest.h>

#include "order_cases.hpp"

namespace topograd {
namespace {

TEST(ResidualOrder, LeadsToTheSameMinimum) {
  test::expect_order_does_not_matter({.backend = Backend::cpu});
}

}  // namespace
}  // namespace topograd
