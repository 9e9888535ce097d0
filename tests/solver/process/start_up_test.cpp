// The policy of a tiered start-up: which engine serves next, given which kernels are ready.
#include "../../../solver/session/engines.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace topograd {
namespace {

using runtime::Need;
using runtime::Pass;
using Needs = std::vector<Need>;

const Need kStep{};
const Need kCost = Need::evaluation(Pass::cost), kGradient = Need::evaluation(Pass::gradient);
const Need kJacobian = Need::evaluation(Pass::jacobian);
const Need kDescent{.of = Need::Of::descent_step};

struct Call {
  bool linearises;
  Needs needs;
  std::set<Need> ready;
  bool on_device, waits;
};

TEST(StartUp, TheDeviceServesWhatItHasKernelsFor) {
  const struct {
    const char* name;
    std::vector<Call> calls;
  } rows[] = {
      {"at once", {{true, {kStep}, {kStep}, true, false}}},
      {"later",
       {{false, {kCost}, {}, false, true},
        {false, {kCost}, {}, false, true},
        {false, {kCost}, {kCost}, true, false}}},
      {"one kind after the other",
       {{false, {kCost}, {kCost}, true, false},
        {false, {kGradient}, {kCost}, false, true},
        {false, {kCost}, {kCost}, true, true},
        {false, {kGradient}, {kCost, kGradient}, true, false}}},
      {"a step that needs an evaluation",
       {{true, {kStep, kJacobian}, {kStep}, false, true},
        {true, {kStep, kJacobian}, {kJacobian}, false, true},
        {true, {kStep, kJacobian}, {kStep, kJacobian}, true, false}}},
      {"an evaluation between steps",
       {{true, {kStep}, {}, false, true},
        {false, {kJacobian}, {}, false, true},
        {true, {kStep}, {kStep}, false, true},
        {true, {kStep}, {kStep, kJacobian}, true, false}}},
      {"other steps do not hold up linearisations",
       {{false, {kDescent}, {}, false, true}, {true, {kStep}, {kStep}, true, true}}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    StartUp start_up;
    for (std::size_t k = 0; k < row.calls.size(); ++k) {
      SCOPED_TRACE(k);
      const Call& call = row.calls[k];
      const auto ready = [&](const Need& need) { return call.ready.contains(need); };
      EXPECT_EQ(call.linearises ? start_up.steps_on_device(call.needs, ready)
                                : start_up.on_device(call.needs, ready),
                call.on_device);
      EXPECT_EQ(start_up.waits(), call.waits);
    }
  }
}

TEST(StartUp, AllKernelsAreBegunAtOnce) {
  StartUp start_up;
  Needs asked;
  const auto ready = [&](const Need& need) {
    asked.push_back(need);
    return false;
  };
  const Needs needs = {kStep, kGradient, kJacobian};
  EXPECT_FALSE(start_up.steps_on_device(needs, ready));
  EXPECT_EQ(asked, needs);
}

}  // namespace
}  // namespace topograd
