// Eight threads on one executor: all members concurrently, while its device fails and returns.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>

#include "../../../runtime/hybrid/executor.hpp"

#include "../../support/paths.hpp"
#include "device.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

constexpr int kThreads = 8, kRounds = 60;

/// The calls of each thread in turn; k counts its rounds.
class Worker {
 public:
  Worker(Executor& executor, FakeDevice::State& device, int thread)
      : executor_(executor), device_(device), thread_(thread) {}

  void run() {
    for (int k = 0; k < kRounds; ++k) {
      switch ((k + thread_) % 6) {
        case 0: one(k); break;
        case 1: list(k); break;
        case 2: submitted(k); break;
        case 3: decided(k); break;
        case 4: device_.failures = k % 12 == 4 ? 3 : 0; break;
        case 5: read(); break;
      }
    }
  }
  int wrong() const { return wrong_; }

 private:
  std::size_t size(int k) const {
    return static_cast<std::size_t>(10 + 197 * ((k + thread_) % 13));
  }
  void check(const AddTask& task) { wrong_ += task.right() ? 0 : 1; }

  void one(int k) {
    AddTask task(size(k), static_cast<float>(thread_));
    executor_.execute(task);
    check(task);
  }
  void list(int k) {
    AddTask a(size(k)), b(size(k + 1)), c(size(k + 2));
    const std::array<Task*, 3> tasks = {&a, &b, &c};
    if (k % 5 == 0) {
      executor_.warm_up(tasks, 1);
    } else {
      executor_.execute(tasks);
    }
    for (const AddTask* task : {&a, &b, &c}) check(*task);
  }
  void submitted(int k) {
    AddTask a(size(k)), b(size(k + 3));
    std::future<ExecutionStats> first = executor_.submit(a), second = executor_.submit(b);
    first.get();
    second.get();
    check(a);
    check(b);
  }
  void decided(int k) {
    const AddTask task(size(k));
    const Decision decision = executor_.outside_work().decide(task.shape());
    if (k % 2 == 0) {
      executor_.outside_work().record(task.shape(), decision, {.times = {.kernel = 12}});
    } else {
      executor_.scheduler().cancel(decision);
    }
    wrong_ += executor_.explain(decision).empty() ? 1 : 0;
  }
  void read() {
    wrong_ += prometheus_text(executor_).empty() || metrics_json(executor_).empty() ? 1 : 0;
    executor_.capabilities();
    executor_.trace().events();
    executor_.statistics("add", "cpu");
    executor_.scheduler().merge(executor_.scheduler().knowledge());
    executor_.save_state();
  }

  Executor& executor_;
  FakeDevice::State& device_;
  const int thread_;
  int wrong_ = 0;
};

TEST(HybridThreads, EverythingAtOnce) {
  const TemporaryDir folder;
  auto state = std::make_shared<FakeDevice::State>();
  std::atomic<int> seen{0};
  {
    Executor executor({.back_off_seconds = 0,
                       .max_kernels = 4,
                       .split_size = 1500,
                       .threads = 2,
                       .trace_events = 64,
                       .state = folder.path()});
    executor.set_observer([&](auto, auto, const auto&) { ++seen; });
    executor.add_device(std::make_unique<FakeDevice>(state));
    std::vector<Worker> workers;
    for (int t = 0; t < kThreads; ++t) workers.emplace_back(executor, *state, t);
    std::vector<std::thread> threads;
    for (Worker& worker : workers) threads.emplace_back([&worker] { worker.run(); });
    for (std::thread& thread : threads) thread.join();
    for (const Worker& worker : workers) EXPECT_EQ(worker.wrong(), 0);
    for (const TargetState& target : executor.scheduler().targets())
      EXPECT_EQ(target.queued_us, 0) << target.target.name;
  }
  EXPECT_GT(seen, 0);
  EXPECT_GT(state->runs, 0);
  EXPECT_GT(state->reopened, 0);
}

}  // namespace
}  // namespace topograd::test
