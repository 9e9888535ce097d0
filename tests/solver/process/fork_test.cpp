// fork() of a process that has solved before: the copies work, or give the reason at once why not.
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/hybrid/batch.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include "../../../tools/problems/springs.hpp"

namespace topograd::test {
namespace {

using Lines = std::vector<std::string>;
using Say = std::function<void(const std::string&)>;

constexpr double kSilentSeconds = 60;

/// The child's output; it must end well, exit handlers included.
Lines in_child(const std::function<void(const Say&)>& work) {
  Lines lines;
  const platform::ChildEnd end = platform::run_child(
      work, [&](const std::string& line) { lines.push_back(line); }, kSilentSeconds);
  EXPECT_FALSE(end.silent) << "it hangs";
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.status, 0);
  return lines;
}

std::string text(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.17g", value);
  return digits;
}

std::string solved(int threads) {
  const auto springs = problems::springs(32);
  SolverOptions options{.backend = Backend::cpu};
  options.max_iterations = 3;
  options.threads = threads;
  return text(solve(springs->problem, options).final_cost);
}

/// Where a child's exit handlers write; -1 in the parent.
int told_at_exit = -1;

void tell_at_exit(char what) {
  if (told_at_exit >= 0) {
    EXPECT_EQ(::write(told_at_exit, &what, 1), 1);
  }
}

/// Registered before any device is opened.
[[maybe_unused]] const int kRegistered = std::atexit([] { tell_at_exit('h'); });
struct Destroyed {
  ~Destroyed() { tell_at_exit('d'); }
};
[[maybe_unused]] const Destroyed kDestroyed;

/// The letters of exit handlers that a child runs.
[[maybe_unused]] std::string told_by_child() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  in_child([&](const Say&) {
    told_at_exit = ends[1];
    std::atexit([] { tell_at_exit('c'); });
  });
  ::close(ends[1]);
  char letters[8];
  const ssize_t count = ::read(ends[0], letters, sizeof letters);
  ::close(ends[0]);
  return {letters, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST(Fork, ChildrenSolveAsTheirParentDid) {
  for (const int threads : {0, 1, 2}) {
    const std::string want = solved(threads);
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(in_child([&](const Say& say) { say(solved(threads)); }), Lines{want}) << threads;
    EXPECT_EQ(solved(threads), want) << "and the parent goes on";
  }
}

TEST(Fork, ChildrenUseWhatTheirParentMade) {
  const auto springs = problems::springs(40);
  Evaluator evaluator(springs->problem, {.backend = Backend::cpu});
  std::vector<double> x(springs->problem.parameter_count());
  springs->problem.read_x(x);
  const std::string want = text(evaluator.gradient(x).norm());
  const std::string later = text(evaluator.gradient_async(x).get().norm());
  EXPECT_EQ(in_child([&](const Say& say) {
              say(text(evaluator.gradient(x).norm()));
              say(text(evaluator.gradient_async(x).get().norm()));
            }),
            (Lines{want, later}));
}

TEST(Fork, ChildrenRunTasksOfTheHybridExecutor) {
  runtime::hybrid::Executor executor;
  runtime::hybrid::Batch<int> batch;
  for (int k = 0; k < 1000; ++k) batch.add(static_cast<std::uint64_t>(k), k);
  const auto sum = [&] {
    long total = 0;
    for (const auto& one : batch.run(executor, [](int k) { return 2 * k; })) total += one.value;
    return std::to_string(total);
  };
  EXPECT_EQ(sum(), "999000");
  EXPECT_EQ(in_child([&](const Say& say) { say(sum()); }), Lines{"999000"});
}

// Threads of a process that starts: one, and more in an emulator of another processor.
const int kThreadsAtStart = platform::thread_count();

TEST(Fork, LoopsOfAChildHaveThreadsOfItsOwn) {
  std::vector<int> hits(100000);
  const auto all = [&] {
    std::fill(hits.begin(), hits.end(), 0);
    ir::parallel_for(std::size_t{0}, hits.size(), [&](std::size_t k) {
      ++hits[k];
      // A loop inside another one.
      if (k % 10000 == 0) ir::parallel_for(0, 3, [&](int) {});
    });
    return std::to_string(std::accumulate(hits.begin(), hits.end(), 0));
  };
  EXPECT_EQ(all(), "100000");
  EXPECT_FALSE(ir::pool_is_lost());
  const Lines lines = in_child([&](const Say& say) {
    say(ir::pool_is_lost() ? "lost" : "there");
    const int before = platform::thread_count();
    for (int k = 0; k < 50; ++k) {
      if (all() != "100000") say("wrong");
    }
    say(before == kThreadsAtStart ? "alone" : text(before));
    say(platform::thread_count() ==
                kThreadsAtStart - 1 +
                    std::max(1, static_cast<int>(std::thread::hardware_concurrency()))
            ? "all threads"
            : "not all threads");
    try {
      ir::parallel_for(0, 1000, [](int k) {
        if (k == 500) throw std::runtime_error("thrown");
      });
    } catch (const std::runtime_error& error) {
      say(error.what());
    }
    std::vector<std::uint32_t> order(5000);
    for (std::uint32_t k = 0; k < 5000; ++k) order[k] = (k * 7919) % 5000;
    ir::parallel_sort(order);
    say(std::is_sorted(order.begin(), order.end()) ? "sorted" : "not sorted");
    say(all());  // children of children
    say(in_child([&](const Say& inner) { inner(all()); }) == Lines{"100000"} ? "grandchild" : "");
  });
  EXPECT_EQ(lines,
            (Lines{"lost", "alone", "all threads", "thrown", "sorted", "100000", "grandchild"}));
}

#ifdef TOPOGRAD_WITH_VULKAN
TEST(Fork, ChildrenOfAParentThatUsedADeviceAreToldAtOnce) {
  const auto springs = problems::springs(24);
  SolverOptions options{.backend = Backend::vulkan};
  options.max_iterations = 3;
  std::string want;
  try {
    want = text(solve(springs->problem, options).final_cost);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  Solver solver(springs->problem, options);
  solver.solve();
  const Lines lines = in_child([&](const Say& say) {
    const auto tried = [&](const std::function<Summary()>& call) {
      try {
        const Summary summary = call();
        say(summary.backend);
      } catch (const Error& error) {
        say(std::string(name(error.code())) + ": " +
            (std::string(error.what()).find("fork()") != std::string::npos ? "fork()"
                                                                           : error.what()));
      }
    };
    tried([&] { return solve(springs->problem, options); });
    tried([&] { return solver.solve(); });
    SolverOptions automatic = options;
    automatic.backend = Backend::automatic;
    automatic.device = "0";
    automatic.fallback_threshold = 0;
    tried([&] { return solve(springs->problem, automatic); });
  });
  EXPECT_EQ(lines, (Lines{"no_device: fork()", "no_device: fork()", "cpu"}));
  EXPECT_EQ(told_by_child(), "cdh") << "the exit handlers of a child";
}
#endif

}  // namespace
}  // namespace topograd::test
