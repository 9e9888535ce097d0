// The choice between two sides from fictional predictions: one row for each rule and each bound.
#include <gtest/gtest.h>

#include "../../../runtime/hybrid/routing/decision.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

const HybridOptions kRules = {
    .speed_up_unsure = 1.5, .speed_up_sure = 1.1, .sure_confidence = 0.5, .margin = 1.2};

Prediction measured(double us, double confidence = 0.9) {
  return {.terms = {.kernel = us}, .confidence = confidence, .measured = true};
}
Prediction guessed(double us) {
  return {.terms = {.kernel = us}, .confidence = 0.4, .guessed = true};
}

TEST(Choice, BySides) {
  constexpr Side none = Side::none, cpu = Side::cpu, device = Side::device;
  const Prediction unknown;
  const struct {
    const char* name;
    SideFacts facts;
    Side expected;
    Reason reason;
    double needed;
  } rows[] = {
      {"sure and faster", {measured(111), measured(100)}, device, Reason::faster, 1.1},
      {"sure and just too slow", {measured(109), measured(100)}, cpu, Reason::slower, 1.1},
      {"unsure on the CPU", {measured(149, 0.4), measured(100)}, cpu, Reason::slower, 1.5},
      {"unsure on the device", {measured(149), measured(100, 0.4)}, cpu, Reason::slower, 1.5},
      {"unsure and much faster", {measured(150, 0.4), measured(100)}, device, Reason::faster, 1.5},
      {"was on the CPU", {measured(109), measured(100), cpu}, cpu, Reason::slower, 1.1},
      {"stays", {measured(92), measured(100), device}, device, Reason::faster, 1.1 / 1.2},
      {"stays if unsure",
       {measured(92, 0), measured(100), device},
       device,
       Reason::faster,
       1.1 / 1.2},
      {"leaves", {measured(91), measured(100), device}, cpu, Reason::slower, 1.1 / 1.2},
      {"a threshold is for what was not measured",
       {measured(200), measured(100), none, true},
       device,
       Reason::faster,
       1.1},
      {"tries the CPU",
       {guessed(500), measured(100), none, false, 1000},
       cpu,
       Reason::unmeasured,
       0},
      {"the CPU could take too long",
       {guessed(500), measured(100), none, false, 1001},
       device,
       Reason::guessed,
       1.5},
      {"the CPU was measured",
       {measured(500), guessed(100), none, false, 200},
       device,
       Reason::guessed,
       1.5},
      {"guessed to be faster", {guessed(150), guessed(100)}, device, Reason::guessed, 1.5},
      {"guessed to be slower", {guessed(149), guessed(100)}, cpu, Reason::guessed, 1.5},
      {"known on one side, large", {measured(1), unknown}, device, Reason::unmeasured, 0},
      {"known on one side, small",
       {measured(1), unknown, none, true},
       cpu,
       Reason::below_threshold,
       0},
      {"unknown and large", {unknown, unknown}, device, Reason::unmeasured, 0},
      {"unknown and small", {unknown, unknown, none, true}, cpu, Reason::below_threshold, 0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const SideChoice choice = choose_side(row.facts, kRules);
    EXPECT_EQ(choice.side, row.expected);
    EXPECT_EQ(choice.reason, row.reason) << name(choice.reason);
    EXPECT_DOUBLE_EQ(choice.needed, row.needed);
  }
}

TEST(Choice, NothingIsTriedWithoutExploration) {
  const SideFacts facts = {guessed(500), measured(100), Side::none, false, 200};
  HybridOptions options = kRules;
  EXPECT_EQ(choose_side(facts, options).side, Side::cpu);
  options.explore_every = 0;
  EXPECT_EQ(choose_side(facts, options).side, Side::device);
}

TEST(Choice, SpeedUpAndConfidenceAreThoseOfBothSides) {
  const SideChoice both = choose_side({measured(300, 0.8), measured(100, 0.7)}, kRules);
  EXPECT_DOUBLE_EQ(both.speed_up, 3);
  EXPECT_DOUBLE_EQ(both.confidence, 0.7);
  EXPECT_EQ(choose_side({measured(300), {}}, kRules).speed_up, 0) << "one side is not known";
}

TEST(Choice, TheTaskIsForcedBeforeTheOptions) {
  const struct {
    Override task;
    Force options;
    Side expected;
  } rows[] = {
      {Override::none, Force::none, Side::none},     {Override::none, Force::cpu, Side::cpu},
      {Override::none, Force::device, Side::device}, {Override::cpu, Force::device, Side::cpu},
      {Override::device, Force::cpu, Side::device},  {Override::cpu, Force::none, Side::cpu},
      {Override::device, Force::none, Side::device},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(forced_side({.where = row.task}, {.force = row.options}), row.expected)
        << static_cast<int>(row.task) << " " << static_cast<int>(row.options);
  }
}

}  // namespace
}  // namespace topograd::test
