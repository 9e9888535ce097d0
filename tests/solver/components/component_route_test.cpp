// The rule that chooses between the CPU and a device for separate components.
#include "../../../solver/components/component_route.hpp"

#include "../../../frontend/problem.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../solver/model/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace topograd {
namespace {

const DeviceFacts kDevice{.shared_memory_bytes = 49152};

/// Peaks of bench_components: 25 rows over 5 unknowns.
constexpr ComponentWork kPeak{
    .unknowns = 5, .operations = 300, .products = 375, .up = 30, .down = 10};
/// Its chains.
ComponentWork chain(double n) {
  return {.unknowns = n,
          .operations = 6 * n - 1,
          .products = n * (n + 1) / 2 + n + 3 * (n - 1),
          .up = 3 * n + 1,
          .down = n + 5};
}

/// A process that has used the device before, and made the kernels.
RouteFacts facts_of(const ComponentWork& one, double count, int threads,
                    Precision precision = Precision::f32) {
  return {.groups = {{.one = one, .count = count}},
          .instances = static_cast<std::uint64_t>(25 * count),
          .threshold = 1024,
          .threads = threads,
          .opened = true,
          .kernels_made = true,
          .device = RouteDeviceFacts{.found = kDevice, .precision = precision}};
}

bool takes_device(const RouteFacts& facts) { return decide_route(facts).on_device; }

/// Milliseconds on an H200 and 16 threads of its host.
TEST(ComponentRoute, TimesThatWereMeasured) {
  const struct {
    const char* name;
    ComponentWork one;
    double count;
    Precision precision;
    double cpu, device;
  } rows[] = {
      {"peaks, f32", kPeak, 1e6, Precision::f32, 229, 106},
      {"peaks, f64", kPeak, 1e6, Precision::f64, 229, 87},
      {"16, f32", chain(16), 1e4, Precision::f32, 7.2, 4.0},
      {"16, f64", chain(16), 1e4, Precision::f64, 7.2, 4.5},
      {"17, f32", chain(17), 1e4, Precision::f32, 5.9, 6.9},
      {"17, f64", chain(17), 1e4, Precision::f64, 5.9, 7.3},
      {"32, f32", chain(32), 1e4, Precision::f32, 17, 16},
      {"32, f64", chain(32), 1e4, Precision::f64, 17, 24},
      {"64, f32", chain(64), 1e4, Precision::f32, 57, 74},
      {"64, f64", chain(64), 1e4, Precision::f64, 57, 81},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const RouteFacts facts = facts_of(row.one, row.count, 16, row.precision);
    EXPECT_LT(std::abs(std::log(1e3 * cpu_seconds(facts) / row.cpu)), std::log(2.0));
    EXPECT_LT(std::abs(std::log(1e3 * device_seconds(facts, row.precision).total() / row.device)),
              std::log(2.0));
    if (row.cpu > 1.5 * row.device) {
      EXPECT_TRUE(takes_device(facts));
    }
    if (row.device > row.cpu) {
      EXPECT_FALSE(takes_device(facts));
    }
    // One thread takes eight times as long.
    RouteFacts alone = facts;
    alone.threads = 1;
    EXPECT_TRUE(takes_device(alone));
    for (double before = 1e300; alone.threads <= 16; ++alone.threads) {
      EXPECT_LT(cpu_seconds(alone), before) << alone.threads;
      before = cpu_seconds(alone);
    }
  }
}

/// A solve takes between n² and n³ operations. Above 16 unknowns a workgroup holds its matrix in
/// shared memory: 10,000 chains of 17 took 1.38 times as long in f64 on an H200.
TEST(ComponentRoute, TimesGrowWithTheMatrix) {
  const auto kernels = [](const ComponentWork& one, double count, Precision precision) {
    return device_seconds(facts_of(one, count, 16, precision), precision).kernels;
  };
  const double doubled = kernels({.unknowns = 16}, 1e6, Precision::f32) /
                         kernels({.unknowns = 8}, 1e6, Precision::f32);
  EXPECT_GT(doubled, 5);
  EXPECT_LT(doubled, 7);
  const double wide =
      kernels(chain(17), 1e4, Precision::f64) / kernels(chain(17), 1e4, Precision::f32);
  EXPECT_GT(wide, 1.15);
  EXPECT_LT(wide, 1.6);
}

TEST(ComponentRoute, MoreComponentsMakeTheDeviceNoLessAttractive) {
  for (const double spent : {0.0, 0.1}) {
    for (const int threads : {1, 4, 16, 64}) {
      for (const bool opened : {false, true}) {
        for (const double n : {1.0, 5.0, 16.0, 17.0, 40.0, 64.0}) {
          bool took = false;
          for (double count = 32; count < 3e7; count *= 2) {
            RouteFacts facts = facts_of(chain(n), count, threads, Precision::f64);
            facts.opened = facts.kernels_made = opened;
            facts.spent = spent;
            const bool takes = takes_device(facts);
            EXPECT_TRUE(takes || !took) << count << " of " << n << ", " << threads << " threads";
            took = takes;
          }
        }
      }
    }
  }
}

TEST(ComponentRoute, WhatMakesTheDeviceLessAttractive) {
  for (const double n : {3.0, 12.0, 16.0, 20.0, 64.0}) {
    for (double count = 100; count < 1e7; count *= 3) {
      for (const int threads : {1, 3, 8}) {
        const RouteFacts facts = facts_of(chain(n), count, threads);
        SCOPED_TRACE(std::to_string(n) + " unknowns, " + std::to_string(count));
        const auto less = [&](auto&& change) {
          RouteFacts other = facts;
          change(other);
          EXPECT_TRUE(takes_device(facts) || !takes_device(other));
        };
        less([](RouteFacts& f) { f.threads *= 2; });
        less([](RouteFacts& f) { f.opened = false; });
        less([](RouteFacts& f) { f.kernels_made = false; });
        // The host checks a component in less time if the device was in f64.
        less([](RouteFacts& f) {
          f.host_checks = false;
          f.device->precision = Precision::f64;
        });
        less([](RouteFacts& f) {
          f.groups.push_back({.one = chain(100), .count = 100, .on_device = false});
        });
        less([](RouteFacts& f) { f.device->refused = true; });
        less([](RouteFacts& f) { f.groups[0].one.up *= 4; });
        RouteFacts verdicts = facts;
        verdicts.host_checks = false;
        EXPECT_TRUE(takes_device(verdicts) || !takes_device(facts));
        RouteFacts later = facts;
        later.opened = later.kernels_made = false;
        const bool at_first = takes_device(later);
        later.spent = 1;
        EXPECT_TRUE(takes_device(later) || !at_first);
        later.spent_here = 1;
        EXPECT_TRUE(takes_device(later) || !at_first);
        EXPECT_EQ(takes_device(later), takes_device(facts)) << "all that opening costs was spent";
      }
    }
  }
}

TEST(ComponentRoute, SmallProblemsDoNotLookForDevices) {
  RouteFacts facts = facts_of(kPeak, 1e6, 2);
  facts.device.reset();
  EXPECT_TRUE(decide_route(facts).asks_for_device);
  facts.opened = facts.kernels_made = false;
  EXPECT_TRUE(decide_route(facts).asks_for_device) << "worth opening one";
  for (const double count : {1.0, 1000.0, 40000.0}) {
    facts.groups[0].count = count;
    const RouteChoice choice = decide_route(facts);
    EXPECT_FALSE(choice.asks_for_device || choice.on_device);
    EXPECT_EQ(choice.reason, RouteReason::short_solve);
  }
  facts.spent = 0.25;  // the device would have been opened in this time, and then its kernel made
  EXPECT_FALSE(decide_route(facts).asks_for_device);
  facts.spent_here = 0.05;
  EXPECT_TRUE(decide_route(facts).asks_for_device);
  facts.groups[0].count = 500;
  EXPECT_FALSE(decide_route(facts).asks_for_device) << "whatever was spent";
  facts.threshold = 0;
  EXPECT_TRUE(decide_route(facts).asks_for_device);
  facts.threshold = facts.instances + 1;
  EXPECT_EQ(decide_route(facts).reason, RouteReason::below_threshold);
  EXPECT_EQ(text(decide_route(facts), facts, ""), "cpu: " + std::to_string(facts.instances) +
                                                      " instances are below the threshold of " +
                                                      std::to_string(facts.threshold));
}

TEST(ComponentRoute, DevicesThatDoNotServe) {
  const RouteFacts fits = facts_of(kPeak, 1e6, 2);
  ASSERT_TRUE(takes_device(fits));
  const auto reason = [&](auto&& change) {
    RouteFacts other = fits;
    change(other);
    const RouteChoice choice = decide_route(other);
    EXPECT_FALSE(choice.on_device);
    EXPECT_EQ(text(choice, other, "").substr(0, 5), "cpu: ");
    return choice.reason;
  };
  EXPECT_EQ(reason([](RouteFacts& f) { f.device->found.available = false; }),
            RouteReason::no_device);
  EXPECT_EQ(reason([](RouteFacts& f) { f.device->found.kind = "software"; }),
            RouteReason::software_device);
  EXPECT_EQ(reason([](RouteFacts& f) { f.device->refused = true; }), RouteReason::refused);
  EXPECT_EQ(reason([](RouteFacts& f) { f.groups[0].on_device = false; }),
            RouteReason::no_component);
  RouteFacts named = fits;
  named.device->found.kind = "software";
  named.device->named = true;
  EXPECT_TRUE(takes_device(named));
}

TEST(ComponentRoute, WhatWasMeasuredReplacesWhatIsPredicted) {
  RouteFacts facts = facts_of(kPeak, 1e6, 2);
  facts.device->seconds = 10;
  EXPECT_FALSE(takes_device(facts));
  facts.device->cpu_seconds = 12;
  EXPECT_TRUE(takes_device(facts));
  EXPECT_EQ(text(decide_route(facts), facts, ""),
            "vulkan: 12 s measured on the CPU, 10 s measured on \"\"");
  facts.device->cpu_seconds = 10.5;
  EXPECT_FALSE(takes_device(facts)) << "not clearly faster";
  // Let the host's part beside a device take as long as a solve on the CPU.
  facts.device->seconds.reset();
  const double host = decide_route(facts).device_seconds.host;
  facts.device->cpu_seconds = 5.25;
  EXPECT_NEAR(decide_route(facts).device_seconds.host, host / 2, 1e-12);
  facts.device->seconds = 10;
  facts.deterministic = true;  // no clock decides, and the device is opened each time
  EXPECT_TRUE(takes_device(facts));
  const bool before = takes_device(facts);
  for (const double spent : {0.0, 100.0}) {
    for (const bool opened : {false, true}) {
      facts.spent = facts.spent_here = spent;
      facts.opened = facts.kernels_made = opened;
      EXPECT_EQ(takes_device(facts), before);
      EXPECT_GT(device_seconds(facts, Precision::f32).setup, 0.2);
    }
  }
}

TEST(ComponentRoute, WorkOfAGroup) {
  Problem problem;
  std::vector<double> x(4 * 40, 1.0);
  const Parameters all = problem.add_parameters(std::span(x), 4);
  for (int k = 0; k < 40; ++k) {
    const Value a = all(k, 0), b = all(k, 1), c = all(k, 2);
    problem.add_residual(a * b - 1.0);
    problem.add_residual(a * b - double(k));
    problem.add_residual(exp(a) + b * c);
  }
  const ProblemModel model = make_model("test", problem);
  ComponentSearch search(model.model);
  const ComponentGroups groups = search.groups();
  ASSERT_EQ(groups.groups.size(), 1u);
  const ComponentWork work = work_of(groups.groups[0]);
  EXPECT_EQ(work.unknowns, 4);
  EXPECT_EQ(work.products, 3 + 3 + 6);
  EXPECT_EQ(work.operations, 2 + 2 + 3);
  EXPECT_GE(work.up, 4 + 2);
  EXPECT_EQ(work.down, 4 + 5);
}

}  // namespace
}  // namespace topograd
