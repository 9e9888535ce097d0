// The place of a factor, by facts alone.
#include <gtest/gtest.h>

#include "../../../solver/plan/decide_factor.hpp"

namespace topograd {
namespace {

constexpr FactorFacts kFewOperations{1e6, 1e8}, kSomeOperations{1e7, 4e9},
    kManyOperations{1e8, 1e12};

runtime::FactorUse device_with(std::uint64_t dispatches) {
  return {.possible = true, .dispatches = dispatches};
}

TEST(DecideFactor, FollowsTheRules) {
  using Place = FactorPlace;
  using Why = FactorReason;
  using Next = FactorChoice::Fact;
  const runtime::FactorUse not_possible{.why = {runtime::MatrixReason::memory}};
  const struct {
    const char* name;
    FactorPlaceFacts facts;
    Next next;
    Place place;
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
      {"few dispatches",
       {.on_device = true,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(1000)},
       Next::none,
       Place::device,
       Why::faster},
      {"many dispatches",
       {.on_device = true,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(100000)},
       Next::none,
       Place::host,
       Why::slower},
      {"many threads",
       {.on_device = true,
        .threads = 64,
        .unknowns = 2000,
        .factor = kSomeOperations,
        .device = device_with(3000)},
       Next::none,
       Place::host,
       Why::slower},
      {"many operations",
       {.on_device = true,
        .threads = 64,
        .unknowns = 2000,
        .factor = kManyOperations,
        .device = device_with(100000)},
       Next::none,
       Place::device,
       Why::faster},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const FactorChoice choice = decide_factor(row.facts);
    EXPECT_EQ(choice.next, row.next);
    if (choice.next != Next::none) continue;
    EXPECT_EQ(name(choice.place), name(row.place));
    EXPECT_EQ(choice.reason, row.why);
  }
}

}  // namespace
}  // namespace topograd
