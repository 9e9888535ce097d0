// The typed layer: the caller's own values and callables, with ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../../runtime/hybrid/batch.hpp"

#include "device.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

Batch<std::string> words(BatchOptions options, int count = 1000) {
  Batch<std::string> batch(std::move(options));
  for (int k = 0; k < count; ++k)
    batch.add(static_cast<std::uint64_t>(7 * k),
              std::string(static_cast<std::size_t>(k % 50), 'x'));
  return batch;
}

std::size_t length(const std::string& text) { return text.size(); }

TEST(Batch, GivesAResultForEachIdInOrder) {
  Executor executor(HybridOptions{});
  for (const BatchMode mode : {BatchMode::sequential, BatchMode::parallel}) {
    for (const std::uint64_t threads : {0, 1, 2, 16}) {
      const auto results = words({.mode = mode, .threads = threads}).run(executor, length);
      ASSERT_EQ(results.size(), 1000u);
      for (std::size_t k = 0; k < results.size(); ++k) {
        ASSERT_EQ(results[k].id, 7 * k);
        ASSERT_EQ(results[k].value, k % 50);
        ASSERT_EQ(results[k].stats.device, "cpu");
      }
    }
  }
  EXPECT_EQ(executor.statistics("batch", "cpu").items, 8000u);
}

TEST(Batch, SequentialStaysOnOneThread) {
  Executor executor(HybridOptions{});
  std::set<std::thread::id> seen;
  words({.mode = BatchMode::sequential}).run(executor, [&](const std::string&) {
    seen.insert(std::this_thread::get_id());
    return 0;
  });
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(Batch, PiecesHaveEqualCost) {
  Batch<int> batch, equal;
  for (int k = 0; k < 1000; ++k) {
    batch.add(static_cast<std::uint64_t>(k), k, k == 500 ? 999.0 : 1.0);
    equal.add(static_cast<std::uint64_t>(k), k);
  }
  EXPECT_EQ(batch.cost(), 1998);
  EXPECT_EQ(equal.cuts(4), (std::vector<std::size_t>{0, 250, 500, 750, 1000}));
  EXPECT_EQ(equal.cuts(1), (std::vector<std::size_t>{0, 1000}));
  // Half of the cost is one item: it is a piece of its own, or begins one that ends soon.
  const std::vector<std::size_t> cuts = batch.cuts(16);
  ASSERT_LE(cuts.size(), 17u);
  const auto after = std::ranges::upper_bound(cuts, 500u);
  EXPECT_LE(*after, 501u);
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    double cost = 0;
    for (std::size_t item = cuts[k]; item < cuts[k + 1]; ++item) cost += item == 500 ? 999 : 1;
    EXPECT_LE(cost, 999 + 1998.0 / 16) << k;
    EXPECT_GT(cost, 0) << k;
  }
  Executor executor(HybridOptions{.threads = 2});
  const auto results = batch.run(executor, [](int k) { return 2 * k; });
  for (std::size_t k = 0; k < results.size(); ++k) EXPECT_EQ(results[k].value, 2 * k);
}

TEST(Batch, TimesAreLearnedByCost) {
  double now = 0;
  Executor executor(HybridOptions{}, [&] { return now; });
  const auto run = [&](double cost) {
    Batch<double> batch({.mode = BatchMode::sequential});
    for (int k = 0; k < 100; ++k) batch.add(static_cast<std::uint64_t>(k), cost, cost);
    return batch.run(executor, [&](double c) { return now += 1e-6 * c; })[0].stats.decision.on_cpu;
  };
  for (int k = 0; k < 6; ++k) run(1), run(50);
  // 100 items of 100 µs or of 5,000 µs, and, never measured, of 1,600 µs.
  EXPECT_NEAR(run(1).terms.kernel, 100, 1);
  EXPECT_NEAR(run(50).terms.kernel, 5000, 50);
  EXPECT_NEAR(run(16).terms.kernel, 1600, 16);
  EXPECT_EQ(executor.statistics("batch", "cpu").items, 1500u) << "items are still counted";
}

TEST(Batch, CheckNamesTheValuesThatDiffer) {
  Executor executor(HybridOptions{});
  Batch<int> batch;
  for (int k = 0; k < 100; ++k) batch.add(static_cast<std::uint64_t>(1000 + k), k);
  const auto twice = [](int k) { return 2 * k; };
  const auto device = [](DeviceBackend&, std::span<const int> values, std::span<int> results) {
    for (std::size_t k = 0; k < values.size(); ++k) results[k] = 2 * values[k] + (k % 40 == 7);
    return RunReport{};
  };
  EXPECT_THROW(batch.check(executor, twice, device), Error) << "no device";
  executor.add_device(std::make_unique<FakeDevice>(std::make_shared<FakeDevice::State>()));
  EXPECT_EQ(batch.check(executor, twice, device), (std::vector<std::uint64_t>{1007, 1047, 1087}));
  const auto near = [](int a, int b) { return std::abs(a - b) <= 1; };
  EXPECT_TRUE(batch.check(executor, twice, device, near).empty());
}

TEST(Batch, CostsArePositive) {
  Batch<int> batch;
  for (const double cost : {0.0, -1.0, HUGE_VAL, double{NAN}}) {
    try {
      batch.add(7, 1, cost);
      ADD_FAILURE() << cost;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find("Batch::add: expected a cost > 0"),
                std::string::npos);
    }
  }
  EXPECT_EQ(batch.size(), 0u);
}

TEST(Batch, RunsOnADeviceWhereItHasAnImplementation) {
  Executor executor(HybridOptions{});
  auto state = std::make_shared<FakeDevice::State>();
  executor.add_device(std::make_unique<FakeDevice>(state));
  int calls = 0;
  const auto device = [&](DeviceBackend&, std::span<const std::string> values,
                          std::span<std::size_t> out) {
    if (++calls == 2) throw Error(ErrorCode::OutOfDeviceMemory, "full");
    for (std::size_t k = 0; k < values.size(); ++k) out[k] = values[k].size();
    return RunReport{.times = {.kernel = 1}};
  };
  for (int round = 0; round < 2; ++round) {
    const auto results = words({}).run(executor, length, device);
    EXPECT_EQ(results[0].stats.device, round == 0 ? "fake" : "cpu");
    EXPECT_EQ(results[0].stats.fallback, round == 0 ? "" : "full");
    for (std::size_t k = 0; k < results.size(); ++k) ASSERT_EQ(results[k].value, k % 50);
  }
  EXPECT_EQ(words({}, 10).run(executor, length, device).size(), 10u);
  EXPECT_EQ(calls, 2) << "ten are below the minimum";
}

TEST(Batch, CallablesOfOneNameHaveHistoriesOfTheirOwn) {
  Executor executor(HybridOptions{});
  Batch<int> numbers({.operation = "same"});
  for (std::uint64_t id = 0; id < 100; ++id) numbers.add(id, static_cast<int>(id));
  const auto twice = [](int v) { return 2 * v; };
  const auto thrice = [](int v) { return 3 * v; };
  const auto one_more = [](const std::string& text) { return text.size() + 1; };
  const auto kernels = [&] { return executor.scheduler().knowledge().kernels.size(); };
  numbers.run(executor, twice);
  numbers.run(executor, twice);
  EXPECT_EQ(kernels(), 1u);
  numbers.run(executor, thrice);
  EXPECT_EQ(kernels(), 2u);
  words({.operation = "same"}).run(executor, one_more);
  EXPECT_EQ(kernels(), 3u);
  EXPECT_EQ(executor.statistics("same", "cpu").tasks, 4u) << "one operation";
}

TEST(Batch, EmptyAndThrowing) {
  Executor executor(HybridOptions{});
  EXPECT_TRUE(words({}, 0).run(executor, length).empty());
  const auto bad = [](const std::string& text) -> int {
    if (text.size() == 13) throw std::runtime_error("unlucky");
    return 0;
  };
  EXPECT_THROW(words({}).run(executor, bad), std::runtime_error);
  EXPECT_EQ(executor.statistics("batch", "cpu").tasks, 1u);
  EXPECT_EQ(executor.statistics("batch", "cpu").failures, 1u);
}

TEST(Batch, GivesBoolsAndWhatIsOnlyMovable) {
  Executor executor(HybridOptions{});
  const auto even = words({}).run(executor, [](const std::string& s) { return s.size() % 2 == 0; });
  const auto owned = words({}).run(
      executor, [](const std::string& s) { return std::make_unique<std::size_t>(s.size()); });
  for (std::size_t k = 0; k < even.size(); ++k) {
    ASSERT_EQ(even[k].value, k % 50 % 2 == 0);
    ASSERT_EQ(*owned[k].value, k % 50);
  }
}

}  // namespace
}  // namespace topograd::test
