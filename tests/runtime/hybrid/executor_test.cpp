// Tasks on an executor with the test's own device: results, fallbacks, lists, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>

#include "device.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() { make({}); }

  void make(HybridOptions options) {
    executor = std::make_unique<Executor>(std::move(options), [this] { return now.load(); });
    executor->set_log([this](LogLevel level, const std::string& text) {
      const std::lock_guard lock(log_mutex);
      (level == LogLevel::warning ? warnings : infos).push_back(text);
    });
    state = std::make_shared<FakeDevice::State>();
    executor->add_device(std::make_unique<FakeDevice>(state));
  }
  ExecutionStats run(AddTask& task) {
    const ExecutionStats stats = executor->execute(task);
    EXPECT_TRUE(task.right());
    return stats;
  }

  std::atomic<double> now{0};
  std::shared_ptr<FakeDevice::State> state;
  std::unique_ptr<Executor> executor;
  std::mutex log_mutex;
  std::vector<std::string> warnings, infos;
};

TEST_F(ExecutorTest, SmallTasksOnTheCpuLargeOnesOnTheDevice) {
  AddTask small(32), large(1024);
  EXPECT_EQ(run(small).device, "cpu");
  EXPECT_EQ(state->runs, 0);
  const ExecutionStats stats = run(large);
  EXPECT_EQ(stats.device, "fake");
  EXPECT_EQ(stats.bytes_up, 8192u);
  EXPECT_EQ(stats.bytes_down, 4096u);
  EXPECT_EQ(stats.times.kernel, 5);
  EXPECT_EQ(large.on_cpu, 0u);
  EXPECT_EQ(executor->statistics("add", "fake").tasks, 1u);
  EXPECT_EQ(executor->statistics("add", "cpu").items, 32u);
}

TEST_F(ExecutorTest, DeviceThatIsNotThereIsNoDevice) {
  Executor alone(HybridOptions{}, [] { return 0.0; });
  alone.add_device(make_unavailable_backend("ghost", "it was never built"));
  AddTask task(100000);
  const ExecutionStats stats = alone.execute(task);
  EXPECT_EQ(stats.device, "cpu");
  EXPECT_EQ(stats.decision.reason, Reason::no_device);
  EXPECT_TRUE(task.right());
  const auto list = alone.capabilities();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_GE(list[0].threads, 1);
  EXPECT_FALSE(list[0].simd.empty());
  EXPECT_FALSE(list[1].available);
  EXPECT_EQ(list[1].problem, "it was never built");
}

constexpr ErrorCode kDeviceErrors[] = {ErrorCode::DeviceLost,      ErrorCode::OutOfDeviceMemory,
                                       ErrorCode::OutOfHostMemory, ErrorCode::Timeout,
                                       ErrorCode::ShaderCompile,   ErrorCode::Unsupported};

TEST_F(ExecutorTest, EveryDeviceFailureEndsOnTheCpu) {
  for (const ErrorCode code : kDeviceErrors) {
    SCOPED_TRACE(name(code));
    make({});
    warnings.clear();
    state->error = code;
    state->failures = 1;
    AddTask task(5000);
    const std::vector<float> a = task.a, b = task.b;
    const ExecutionStats stats = run(task);
    EXPECT_EQ(stats.device, "cpu");
    EXPECT_EQ(stats.fallback, "injected " + std::string(name(code)));
    EXPECT_EQ(task.a, a);
    EXPECT_EQ(task.b, b);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(name(code)), std::string::npos);
    EXPECT_EQ(executor->statistics("add", "fake").fallbacks, 1u);
    EXPECT_EQ(executor->statistics("add", "fake").failures, 1u);
    EXPECT_EQ(executor->telemetry().counts().fallbacks.at({"fake", std::string(name(code))}), 1u);
  }
}

TEST_F(ExecutorTest, ForcedTasksThrowTheDevicesError) {
  for (const ErrorCode code : kDeviceErrors) {
    SCOPED_TRACE(name(code));
    make({});
    state->error = code;
    state->failures = 1;
    AddTask task(5000);
    task.where = Override::device;
    try {
      executor->execute(task);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
    }
    EXPECT_EQ(executor->statistics("add", "fake").fallbacks, 0u);
    EXPECT_EQ(task.on_cpu, 0u);
  }
}

TEST_F(ExecutorTest, AListWithoutATaskIsRefused) {
  AddTask task(5000);
  Task* const list[] = {&task, nullptr};
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { executor->execute(list); }), "execute: task 1 of the list is null");
  EXPECT_EQ(message([&] { executor->warm_up(list); }), "warm_up: task 1 of the list is null");
}

TEST_F(ExecutorTest, CallersMistakesAreNotSwallowed) {
  state->error = ErrorCode::InvalidArgument;
  state->failures = 1;
  AddTask task(5000);
  EXPECT_THROW(executor->execute(task), Error);
  EXPECT_EQ(executor->scheduler().targets()[1].queued_us, 0);
  task.where = Override::cpu;
  task.after_cpu = [] { throw std::runtime_error("mine"); };
  EXPECT_THROW(executor->execute(task), std::runtime_error);
}

TEST_F(ExecutorTest, LostDeviceIsReopenedByOneProbe) {
  state->failures = 1;
  AddTask task(5000);
  run(task);
  for (int k = 0; k < 10; ++k) EXPECT_EQ(run(task).decision.reason, Reason::breaker_open);
  EXPECT_EQ(state->runs, 1);
  now = 16;
  state->reopens = false;
  EXPECT_FALSE(run(task).fallback.empty());
  EXPECT_EQ(state->reopened, 1);
  now = 40;  // twice the back-off has not passed
  EXPECT_EQ(run(task).decision.reason, Reason::breaker_open);
  now = 47;
  state->reopens = true;
  EXPECT_EQ(run(task).device, "fake");
  EXPECT_EQ(state->reopened, 2);
  EXPECT_EQ(run(task).device, "fake");
  EXPECT_EQ(state->reopened, 2);
}

TEST_F(ExecutorTest, HundredSmallTasksAreOneDispatch) {
  std::vector<std::unique_ptr<AddTask>> tasks;
  std::vector<Task*> list;
  for (int k = 0; k < 100; ++k) {
    tasks.push_back(std::make_unique<AddTask>(20 + k % 7, static_cast<float>(k)));
    list.push_back(tasks.back().get());
  }
  const std::vector<ExecutionStats> stats = executor->execute(list);
  EXPECT_EQ(state->runs, 1);
  for (std::size_t k = 0; k < 100; ++k) {
    EXPECT_TRUE(tasks[k]->right()) << k;
    EXPECT_EQ(stats[k].coalesced, 100u);
  }
  EXPECT_EQ(executor->telemetry().counts().coalesced_tasks, 100u);
  EXPECT_EQ(executor->telemetry().counts().coalesced_dispatches, 1u);

  make({.coalesce = false});
  for (auto& task : tasks) std::ranges::fill(task->out, -1.0f);
  executor->execute(list);
  EXPECT_EQ(state->runs, 0) << "each is below the minimum";
  for (const auto& task : tasks) EXPECT_TRUE(task->right());
}

TEST_F(ExecutorTest, ListThatFailsOnTheDeviceEndsOnTheCpu) {
  AddTask one(500), two(700, 3);
  state->failures = 1;
  Task* list[] = {&one, &two};
  const auto stats = executor->execute(list);
  EXPECT_TRUE(one.right() && two.right());
  EXPECT_FALSE(stats[1].fallback.empty());
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(ExecutorTest, LargeTasksRunOnBothSidesInProportion) {
  make({.split_size = 10000});
  AddTask task(20000);
  task.after_cpu = [&] { now = now + 15e-6 * 2; };
  state->us = 10;
  Task* const list[] = {&task};
  executor->warm_up(list);  // 30 µs on the CPU against 10 on the device
  std::ranges::fill(task.out, -1.0f);
  task.on_cpu = 0;
  state->items = 0;
  const ExecutionStats stats = run(task);
  EXPECT_NEAR(stats.cpu_share, 0.25, 0.01);
  EXPECT_NEAR(static_cast<double>(task.on_cpu), 5000, 100);
  EXPECT_EQ(task.on_cpu + state->items, 20000u);
  state->failures = 1;
  std::ranges::fill(task.out, -1.0f);
  EXPECT_FALSE(run(task).fallback.empty());
}

TEST_F(ExecutorTest, WarmingUpMeasuresBothSides) {
  AddTask task(4096);
  task.after_cpu = [&] { now = now + 20e-6; };
  Task* const list[] = {&task};
  executor->warm_up(list, 4);
  EXPECT_EQ(state->prepared, 1);
  const ExecutionStats stats = run(task);
  EXPECT_EQ(stats.decision.reason, Reason::faster);
  EXPECT_NEAR(stats.decision.speed_up, 4, 1e-6);
  EXPECT_NE(executor->explain(stats.decision).find("fake (faster)"), std::string::npos);
}

TEST_F(ExecutorTest, SubmittedTasksEndBeforeTheExecutor) {
  std::vector<std::unique_ptr<AddTask>> tasks;
  std::vector<std::future<ExecutionStats>> futures;
  for (int k = 0; k < 50; ++k) {
    tasks.push_back(std::make_unique<AddTask>(k % 2 == 0 ? 10 : 3000, static_cast<float>(k)));
    futures.push_back(executor->submit(*tasks.back()));
  }
  for (int k = 0; k < 25; ++k) futures[static_cast<std::size_t>(k)].get();
  executor = nullptr;
  for (const auto& task : tasks) EXPECT_TRUE(task->right());
}

TEST_F(ExecutorTest, SubmittedTasksAreSplitWhileTheExecutorEnds) {
  make({.split_size = 10000});
  std::vector<std::unique_ptr<AddTask>> tasks;
  for (int k = 0; k < 50; ++k) {
    tasks.push_back(std::make_unique<AddTask>(20000, static_cast<float>(k)));
    tasks.back()->after_cpu = [&] { now = now + 15e-6; };
  }
  Task* const list[] = {tasks.front().get()};
  executor->warm_up(list);
  state->items = 0;
  for (const auto& task : tasks) executor->submit(*task);
  executor = nullptr;
  std::uint64_t on_cpu = 0;
  for (const auto& task : tasks) {
    EXPECT_TRUE(task->right());
    on_cpu += task == tasks.front() ? 0 : task->on_cpu.load();
  }
  EXPECT_GT(on_cpu, 0u);
  EXPECT_GT(state->items, 0u);
}

/// Submits two other tasks to its executor and waits for them, down to a depth.
class NestingTask final : public Task {
 public:
  NestingTask(Executor& executor, int depth, bool in_ranges)
      : executor_(executor), depth_(depth), in_ranges_(in_ranges) {}

  TaskShape shape() const override {
    return {.kernel = {9, 9}, .operation = "nesting", .size = 8, .targets = 1};
  }
  void run_on_cpu(const CpuThreads& threads, Items items) override {
    if (in_ranges_) {
      threads.for_ranges(items.count(), 1, [&](std::size_t, std::size_t) { nest(); });
    } else {
      nest();
    }
  }
  std::atomic<int> ran{0};

 private:
  void nest() {
    if (depth_ > 0) {
      NestingTask first(executor_, depth_ - 1, in_ranges_), second(executor_, depth_ - 1, false);
      auto a = executor_.submit(first), b = executor_.submit(second);
      a.get();
      b.get();
      ran += first.ran + second.ran;
    }
    ++ran;
  }

  Executor& executor_;
  int depth_;
  bool in_ranges_;
};

TEST_F(ExecutorTest, TasksMaySubmitOthersAndWaitForThem) {
  std::vector<std::unique_ptr<NestingTask>> tasks;
  std::vector<std::future<ExecutionStats>> futures;
  for (int k = 0; k < 24; ++k) {
    tasks.push_back(std::make_unique<NestingTask>(*executor, 3, false));
    futures.push_back(executor->submit(*tasks.back()));
  }
  for (auto& future : futures) future.get();
  for (const auto& task : tasks) EXPECT_EQ(task->ran, 15);
  NestingTask wide(*executor, 2, true);
  executor->submit(wide).get();
  EXPECT_EQ(wide.ran, 8 * (1 + 8 * (1 + 8 + 1) + (1 + 1 + 1)));
}

TEST_F(ExecutorTest, WhatATaskSubmitsThrowsFromItsFuture) {
  AddTask inner(64), outer(64);
  inner.where = outer.where = Override::cpu;
  inner.after_cpu = [] { throw std::runtime_error("inner"); };
  std::string caught;
  outer.after_cpu = [&] {
    try {
      executor->submit(inner).get();
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
  };
  executor->submit(outer).get();
  EXPECT_EQ(caught, "inner");
}

TEST_F(ExecutorTest, EightThreadsShareOne) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 200; ++k) {
        AddTask task(static_cast<std::size_t>(10 + 97 * ((k + t) % 13)), static_cast<float>(t));
        executor->execute(task);
        wrong += task.right() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto on = [&](const char* device) { return executor->statistics("add", device).tasks; };
  EXPECT_EQ(on("cpu") + on("fake"), 1600u);
  for (const TargetState& target : executor->scheduler().targets()) EXPECT_EQ(target.queued_us, 0);
}

TEST_F(ExecutorTest, WithoutTelemetryNothingIsCounted) {
  make({.telemetry = false});
  AddTask task(1024);
  run(task);
  EXPECT_EQ(executor->statistics("add", "fake").tasks, 0u);
  EXPECT_TRUE(executor->telemetry().counts().routing.empty());
}

TEST_F(ExecutorTest, LogsTheStartAndTracesDecisions) {
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_NE(infos[0].find("fake (discrete)"), std::string::npos);
  std::vector<std::string> traces;
  executor->set_log([&](LogLevel, const std::string& text) { traces.push_back(text); },
                    LogLevel::trace);
  AddTask task(1024);
  run(task);
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_NE(traces[0].find("add -> fake (unmeasured)"), std::string::npos) << traces[0];
}

TEST_F(ExecutorTest, CheckComparesBothSides) {
  AddTask task(1000);
  const TaskCheck check = executor->check(task);
  EXPECT_TRUE(check.agrees());
  EXPECT_EQ(check.device, "fake");
  EXPECT_EQ(check.on_device.kernel, 5);
  ASSERT_EQ(check.results.size(), 1u);
  EXPECT_EQ(check.text(), "array 2: 1000 f32 agree within 0\n");
  EXPECT_EQ(state->runs, 1);
  EXPECT_EQ(task.on_cpu, 1000u);
  EXPECT_TRUE(task.right());
}

TEST_F(ExecutorTest, CheckSaysWhereTheSidesDiffer) {
  AddTask task(1000);
  state->wrong_at = 7;
  state->wrong_by = 0.01f;  // sums are up to 1,500: far below the tolerance of f32
  EXPECT_TRUE(executor->check(task).agrees());
  EXPECT_FALSE(executor->check(task, {.relative = 1e-6}).agrees());
  state->wrong_by = 100;
  const TaskCheck check = executor->check(task);
  EXPECT_FALSE(check.agrees());
  ASSERT_EQ(check.results.size(), 1u);
  EXPECT_EQ(check.results[0].different, 1u);
  EXPECT_EQ(check.results[0].first, 7u);
  EXPECT_EQ(
      check.text(),
      "array 2: 1 of 1000 f32 differ by up to 0.12; element 7 is 10.5 on the CPU and 110.5 on "
      "the device\n");
  EXPECT_TRUE(task.right()) << "the results of the CPU stay";
}

TEST_F(ExecutorTest, CheckFindsWhatOneSideDoesNotWrite) {
  AddTask task(1000);
  task.after_cpu = [&] { task.out[3] = 0; };
  EXPECT_EQ(executor->check(task).results.at(0).first, 3u);
  // A stale result is no result.
  task.after_cpu = {};
  executor->execute(task);
  class OnlyOnTheDevice final : public Task {
   public:
    explicit OnlyOnTheDevice(AddTask& of) : of_(of) {}
    TaskShape shape() const override { return of_.shape(); }
    void run_on_cpu(const CpuThreads&, Items) override {}
    std::optional<DeviceProgram> program(Items items) override { return of_.program(items); }

   private:
    AddTask& of_;
  };
  OnlyOnTheDevice forgets(task);
  EXPECT_EQ(executor->check(forgets).results.at(0).different, 1000u);
}

TEST_F(ExecutorTest, CheckRefusesWhatItCannotCompare) {
  const auto code_of = [&](Task& task, const CheckOptions& options = {}) {
    try {
      executor->check(task, options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Stopped;
  };
  class Silent final : public Task {
   public:
    TaskShape shape() const override {
      return {.kernel = {9, 9}, .operation = "silent", .size = 100, .targets = targets};
    }
    void run_on_cpu(const CpuThreads&, Items) override {}
    std::uint64_t targets = kEveryTarget;
  };
  Silent silent;
  EXPECT_EQ(code_of(silent), ErrorCode::Unsupported) << "no results";
  silent.targets = 1;
  EXPECT_EQ(code_of(silent), ErrorCode::NoDevice);
  silent.targets = 2;
  EXPECT_EQ(code_of(silent), ErrorCode::Unsupported) << "nothing for the CPU";
  AddTask task(1000);
  EXPECT_EQ(code_of(task, {.device = "another"}), ErrorCode::NoDevice);
  EXPECT_EQ(code_of(task, {.device = "fake"}), ErrorCode::Stopped) << "no error";
  // An error leaves the memory as it was.
  std::ranges::fill(task.out, 42.0f);
  state->failures = 1;
  EXPECT_EQ(code_of(task), ErrorCode::DeviceLost);
  EXPECT_EQ(task.out, std::vector<float>(1000, 42.0f));
}

TEST_F(ExecutorTest, ValuesOfATaskAreItsArrays) {
  AddTask task(3);
  executor->execute(task);
  EXPECT_EQ(values_of(task),
            "array 0 in: 0, 1, 2 (3 f32)\narray 1 in: 0, 0.5, 1 (3 f32)\n"
            "array 2 out: 0, 1.5, 3 (3 f32)\n");
  EXPECT_EQ(values_of(task, 1).substr(0, 28), "array 0 in: 0, ... (3 f32)\na");
}

template <class T>
Comparison compared(Element element, const std::vector<T>& cpu, const std::vector<T>& device) {
  return compare("x", element, std::as_bytes(std::span(cpu)), std::as_bytes(std::span(device)));
}

TEST(Comparison, ToleranceIsByType) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using D = std::vector<double>;
  EXPECT_EQ(compared<double>(Element::f64, D{1, kNan, kInfinity}, D{1 + 1e-12, kNan, kInfinity})
                .different,
            0u);
  EXPECT_EQ(compared<double>(Element::f64, D{1}, D{1 + 1e-8}).different, 1u);
  EXPECT_EQ(compared<double>(Element::f64, D{1, 2, 3}, D{1, kNan, 3}).first, 1u);
  EXPECT_EQ(compared<double>(Element::f64, D{kInfinity}, D{-kInfinity}).different, 1u);
  // What rounding leaves of larger numbers, and numbers whose squares are out of range.
  EXPECT_EQ(compared<double>(Element::f64, D{1, 0}, D{1, 1e-14}).different, 0u);
  EXPECT_EQ(compared<double>(Element::f64, D{1e300, 1e-300}, D{1e300, 2e-300}).different, 0u);
  EXPECT_EQ(compared<double>(Element::f64, D{1e-300, 1e-300}, D{1e-300, 2e-300}).different, 1u);
  EXPECT_EQ(compared<float>(Element::f32, {1.0f}, {1.00001f}).different, 0u);
  EXPECT_EQ(compared<float>(Element::f32, {1.0f}, {1.001f}).different, 1u);
  EXPECT_EQ(compared<float>(Element::bits, {1.0f}, {1.0000001f}).different, 1u);
  EXPECT_EQ(compared<std::int32_t>(Element::i32, {-1, 2}, {-1, 3}).cpu, "2");
  // 1 and 1.0009765625 as f16 differ by less than the tolerance, 1 and 1.5 by more; then both NaN.
  EXPECT_EQ(compared<std::uint16_t>(Element::f16, {0x3c00, 0x7e00}, {0x3c01, 0x7e01}).different,
            0u);
  const Comparison half = compared<std::uint16_t>(Element::f16, {0x3c00, 0}, {0x3e00, 0});
  EXPECT_EQ(half.different, 1u);
  EXPECT_EQ(half.device, "1.5");
}

}  // namespace
}  // namespace topograd::test
