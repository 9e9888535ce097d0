// The place of a factor, by facts alone.
#include <gtest/gtest.h>

#include "../../../solver/plan/step_times.hpp"

namespace topograd {
namespace {

constexpr FactorFacts kFewOperations{1e6, 1e8}, kSomeOperations{1e7, 4e9},
    kManyOperations{1e8, 1e12};

runtime::FactorUse device_with(std::uint64_t steps, const FactorFacts& factor = {}) {
  return {
      .possible = true, .operations = factor.operations, .dispatches = 4 * steps, .steps = steps};
}

TEST(DecideFactor, FollowsTheRules) {
  using Place = FactorPlace;
  using Why = FactorReason;
  using Next = FactorChoice::Fact;
  const runtime::FactorUse not_possible{.why = {runtime::MatrixReason::memory}};
  const struct {
    const char* name;
    FactorBackendFacts facts;
    Next next;
    Place backend;
    Why why;
  } rows[] = {
      {"host", {.asked = Place::host, .on_device = true}, Next::none, Place::host, Why::asked_for},
      {"cholmod", {.asked = Place::cholmod}, Next::none, Place::cholmod, Why::asked_for},
      {"device on the CPU", {.asked = Place::device}, Next::none, Place::device, Why::no_device},
      {"device, unknown",
       {.asked = Place::device, .on_device = true},
       Next::device,
       Place::host,
       Why::no_device},
      {"device, possible",
       {.asked = Place::device, .on_device = true, .software = true, .device = device_with(9)},
       Next::none,
       Place::device,
       Why::asked_for},
      {"device, not possible",
       {.asked = Place::device, .on_device = true, .device = not_possible},
       Next::none,
       Place::device,
       Why::not_possible},
      {"automatic on the CPU", {.unknowns = 1 << 20}, Next::none, Place::host, Why::no_device},
      {"automatic on software",
       {.on_device = true, .software = true, .unknowns = 1 << 20, .factor = kManyOperations},
       Next::none,
       Place::host,
       Why::software},
      {"few unknowns", {.on_device = true, .unknowns = 1999}, Next::none, Place::host, Why::few},
      {"the operations are asked for",
       {.on_device = true, .unknowns = 2000},
       Next::factor,
       Place::host,
       Why::no_device},
      {"few operations",
       {.on_device = true, .unknowns = 2000, .factor = kFewOperations},
       Next::none,
       Place::host,
       Why::few},
      {"the device is asked",
       {.on_device = true, .unknowns = 2000, .factor = kSomeOperations},
       Next::device,
       Place::host,
       Why::no_device},
      {"the device cannot",
       {.on_device = true, .unknowns = 2000, .factor = kSomeOperations, .device = not_possible},
       Next::none,
       Place::host,
       Why::not_possible},
      {"few steps",
       {.on_device = true,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(250, kSomeOperations)},
       Next::none,
       Place::device,
       Why::faster},
      {"many steps",
       {.on_device = true,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(25000, kSomeOperations)},
       Next::none,
       Place::host,
       Why::slower},
      {"many threads",
       {.on_device = true,
        .threads = 64,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(750, kSomeOperations)},
       Next::none,
       Place::host,
       Why::slower},
      {"many operations",
       {.on_device = true,
        .threads = 64,
        .unknowns = 2000,
        .factor = kManyOperations,
        .device = device_with(25000, kManyOperations)},
       Next::none,
       Place::device,
       Why::faster},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const FactorChoice choice = decide_factor(row.facts);
    EXPECT_EQ(choice.next, row.next);
    if (choice.next != Next::none) continue;
    EXPECT_EQ(name(choice.backend), name(row.backend));
    EXPECT_EQ(choice.reason, row.why);
  }
}

/// Times of a factorisation with a solution on an H200: JᵀJ of two meshes by bench_device_factor,
/// and the complement of 49 cameras in a solve.
TEST(DecideFactor, PredictsMeasuredTimes) {
  const struct {
    const char* name;
    runtime::FactorUse use;
    double seconds, share;  // by which the prediction may be wrong
  } rows[] = {
      {"spot, f64", {.operations = 4.1e8, .dispatches = 341, .steps = 69}, 5.91e-3, 0.03},
      {"spot, f32",
       {.operations = 4.1e8, .dispatches = 341, .steps = 69, .narrow = true},
       5.35e-3,
       0.1},
      {"bunny, f64", {.operations = 3.6e10, .dispatches = 1176, .steps = 268}, 36.85e-3, 0.03},
      {"bunny, f32",
       {.operations = 3.6e10, .dispatches = 1176, .steps = 268, .narrow = true},
       27.7e-3,
       0.1},
      {"49 cameras", {.operations = 2.9e7, .dispatches = 70, .steps = 14}, 1e-3, 0.25},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_NEAR(device_factor_seconds(row.use), row.seconds, row.share * row.seconds);
  }
}

}  // namespace
}  // namespace topograd
