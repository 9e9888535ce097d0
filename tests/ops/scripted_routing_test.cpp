// Routing of unplaced operations with a simulated discrete GPU.
#include "scripted_device.hpp"

#include "../../ops/arrays.hpp"
#include "../../ops/run/run.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

using runtime::hybrid::Decision;
using runtime::hybrid::Reason;

/// The device as users' tasks see it: operations run only on the backend.
class ScriptedTarget final : public runtime::hybrid::DeviceBackend {
 public:
  runtime::hybrid::Capabilities capabilities() const override {
    return {.name = "scripted", .kind = "discrete", .driver = "test"};
  }
  runtime::hybrid::RunReport run(const runtime::hybrid::DeviceProgram&) override { return {}; }
  void prepare(const runtime::hybrid::DeviceProgram&) override {}
  void reopen() override {}
};

const Device& device() {
  static const Device& instance = *new Device([] {
    ::setenv("TOPOGRAD_HYBRID_STATE", "none", 1);
    auto scripted = std::make_shared<test::ScriptedDevice>(test::DeviceCosts{});
    list_instead({test::ScriptedDevice::listed(scripted,
                                               [] { return std::make_unique<ScriptedTarget>(); })});
    return Device(scripted);
  }());
  return instance;
}

Array<float> array(std::uint64_t size) { return Array<float>(std::vector<float>(size, 0.5f)); }

/// The last decision of `run`.
template <class F>
Decision decision_of(const F& run) {
  run();
  return last_stats().decision;
}

double queued_us() { return executor().scheduler().targets().at(1).queued_us; }

TEST(ScriptedRouting, AResultWaitsForTheWayOfItsOperands) {
  for (int k = 0; k < 6; ++k) {
    for (const std::uint64_t size : {1000u, 4'000'000u}) {
      const OnDevice scope(device());
      sum(array(size)).item();
    }
  }
  const auto read_back = [](std::uint64_t size) {
    return decision_of([&] { sum(array(size)).item(); }).on_device.terms.read_back;
  };
  // Four bytes each; 16 MB take 800 µs on the bus.
  EXPECT_GT(read_back(4'000'000), 700);
  EXPECT_LT(read_back(1000), 400);
}

TEST(ScriptedRouting, SubmissionIsAPartOfEachKernelsTime) {
  for (int k = 0; k < 6; ++k) {
    const OnDevice scope(device());
    sort(array(100'000)).read();
    map([](Value v) { return v + 1.0; }, array(100'000)).read();
  }
  const auto of_device = [](const Decision& decision) { return decision.on_device.terms; };
  const auto sorted = of_device(decision_of([] { sort(array(100'000)).read(); }));
  const auto mapped =
      of_device(decision_of([] { map([](Value v) { return v + 1.0; }, array(100'000)).read(); }));
  EXPECT_EQ(sorted.submit, 0);
  EXPECT_GT(sorted.kernel, 4 * mapped.kernel) << "several launches against one";
}

TEST(ScriptedRouting, ChainsAreKnownAmongManyOtherPrograms) {
  device();
  const auto chain = [] {
    Array<float> x = map([](Value v) { return v * 0.5 - 2.0; }, array(3000));
    x = map([](Value v) { return v * v * v; }, x);
    return sum(x).item();
  };
  for (std::uint64_t k = 0; k < 100; ++k) sum(array(1000 + 1024 * k)).item();
  for (int k = 0; k < 3; ++k) chain();
  for (std::uint64_t k = 0; k < 100; ++k) sum(array(1000 + 1024 * k)).item();
  const Reason reason = decision_of(chain).reason;
  EXPECT_TRUE(reason == Reason::together || reason == Reason::explored)
      << runtime::hybrid::name(reason);
}

TEST(ScriptedRouting, TheSecondOperationTellsChainsThatBeginAlike) {
  device();
  const auto begin = [] { return map([](Value v) { return v * 0.25; }, array(5000)); };
  const auto shorter = [&] { begin().read(); };
  const auto longer = [&] { sum(map([](Value v) { return v * v; }, begin())).item(); };
  for (int k = 0; k < 4; ++k) {
    longer();
    sum(array(2000 + 1024 * static_cast<std::uint64_t>(k))).item();
    shorter();
    sum(array(2000)).item();
  }
  const Reason reason = decision_of(longer).reason;
  EXPECT_TRUE(reason == Reason::together || reason == Reason::explored)
      << runtime::hybrid::name(reason);
}

/// The simulated device computes nothing: what it gives back is 0.
TEST(ScriptedRouting, ACrossCheckFindsAWrongDevice) {
  const auto message_of = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  ExecutionStats stats;
  const OpOptions there{.device = device(), .stats = &stats, .cross_check = true};
  const Array<float> x = array(1000);
  EXPECT_EQ(
      message_of([&] {
        map(
            there, [](Value v) { return v + 1.0; }, x);
      }),
      "cross_check: map of 1000 on \"scripted\": result 0: 1000 of 1000 f32 differ by up to 1; "
      "element 0 is 1.5 on the CPU and 0 on the device");
  // 0 is right here.
  const Array<float> zeros = map(
      there, [](Value v) { return v - 0.5; }, x);
  EXPECT_EQ(stats.checked, 1000u);
  EXPECT_EQ(zeros.to_vector(), std::vector<float>(1000, 0.0f));
  // An operation in place begins with the same numbers on both sides.
  Array<float> sums = array(4);
  const Array<std::uint32_t> to = {0, 1, 2, 3};
  EXPECT_EQ(message_of([&] { scatter(array(4), to, sums, Combine::add, IndexCheck::none, there); }),
            "cross_check: scatter of 4 on \"scripted\": result 0: 4 of 4 f32 differ by up to 1; "
            "element 0 is 1 on the CPU and 0 on the device");
  EXPECT_EQ(message_of([&] { sum(x, {.device = device()}).item(); }), "no error");
}

TEST(ScriptedRouting, PlacedOperationsAreLoad) {
  const Array<float> x = array(1'000'000).to(device());
  const auto square = [&] { return map([](Value v) { return v * v - 7.0; }, x); };
  for (int k = 0; k < 20; ++k) square().read();
  device().synchronise();
  EXPECT_EQ(queued_us(), 0);
  std::vector<Array<float>> kept;
  for (int k = 0; k < 20; ++k) kept.push_back(square());
  const double queued = queued_us();
  EXPECT_GT(queued, 20 * 5) << "timed or not, each takes 5 µs at least";
  const Decision beside = decision_of([] { sum(array(60'000)).item(); });
  EXPECT_GT(beside.on_device.terms.queue, 0);
  device().synchronise();
  EXPECT_EQ(queued_us(), 0);
}

}  // namespace
}  // namespace topograd::ops
