// When descents end.
#include <gtest/gtest.h>

#include "../../../solver/first_order/control.hpp"

namespace topograd {
namespace {

/// A descent of two steps, the second of which changes the cost by this.
struct Steps {
  Steps(double change, Settling settling, bool scale_free = true)
      : options{.scale_free = scale_free}, control(options, summary) {
    control.start(100, {.max = 1, .squared = 1});
    control.accepted({.cost_change = 50, .step_norm = 1}, 50, {.max = 1, .squared = 1}, 1,
                     settling);
    control.accepted({.cost_change = change, .step_norm = 1}, 50 - change, {.max = 1, .squared = 1},
                     1, settling);
  }

  SolverOptions options;
  Summary summary;
  DescentControl control;
};

// A step back into a valley is small, but the next one goes along it.
TEST(DescentControl, ASmallStepEndsIfTheNextPromisesNoMore) {
  Steps along(1e-6, Settling::newton);
  EXPECT_FALSE(along.control.finished());
  EXPECT_FALSE(along.control.settles(1e-3));
  EXPECT_FALSE(along.control.settles(0)) << "a step was taken since";
  EXPECT_FALSE(along.control.finished());

  Steps still(1e-6, Settling::newton);
  EXPECT_TRUE(still.control.settles(1e-6));
  EXPECT_TRUE(still.control.finished());
  EXPECT_EQ(still.summary.termination, Termination::CONVERGENCE);
  EXPECT_NE(still.summary.message.find("|cost change|: 1.000000e-06"), std::string::npos)
      << still.summary.message;
}

TEST(DescentControl, ALargeStepEndsNothing) {
  Steps steps(1e-3, Settling::newton);
  EXPECT_FALSE(steps.control.settles(0));
  EXPECT_FALSE(steps.control.finished());
}

TEST(DescentControl, CeresTolerancesLookAtTheLastStepAlone) {
  EXPECT_TRUE(Steps(1e-6, Settling::newton, false).control.finished());
  EXPECT_FALSE(Steps(1e-6, Settling::loose).control.finished());
}

}  // namespace
}  // namespace topograd
