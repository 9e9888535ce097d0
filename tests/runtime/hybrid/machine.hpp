// A simulated machine: a CPU and a device whose times are known exactly.
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace topograd::test {

/// Times of five kernels, their transfers and their noise. True times are known without noise, for
/// an oracle.
class Machine {
 public:
  static constexpr std::size_t kKernels = 5;

  explicit Machine(unsigned seed, double noise = 0) : random_(seed), noise_(noise) {}

  /// A task of `kernel` < kKernels; every other kernel has its inputs on the device already.
  runtime::hybrid::TaskShape task(std::size_t kernel, std::uint64_t size) const;
  /// Random size from 10¹ to 10⁷, uniform on the logarithmic scale, of a random kernel.
  runtime::hybrid::TaskShape random_task();

  runtime::hybrid::Terms truth(const runtime::hybrid::TaskShape& task, std::size_t target) const;
  runtime::hybrid::Outcome run(const runtime::hybrid::TaskShape& task, std::size_t target);

  std::array<double, 2> slowdown{1, 1};  ///< of the CPU and of the device
  double now = 0;                        ///< seconds; moves with each run

  runtime::hybrid::Clock clock() {
    return [this] { return now; };
  }

 private:
  std::mt19937_64 random_;
  double noise_;
};

/// Cost of a trace of tasks, compared with an oracle.
struct Trace {
  std::uint64_t tasks = 0, right = 0, on_device = 0, explored = 0;
  double us = 0, oracle_us = 0;

  double right_share() const { return static_cast<double>(right) / static_cast<double>(tasks); }
  double over_oracle() const { return us / oracle_us - 1; }
};

/// Decides, runs and records one task.
runtime::hybrid::Decision step(runtime::hybrid::Scheduler& scheduler, Machine& machine,
                               const runtime::hybrid::TaskShape& task, Trace& trace);

/// Runs each kernel on both sides at the powers of ten, five times, as warm-up does.
void warm_up(runtime::hybrid::Scheduler& scheduler, Machine& machine);

}  // namespace topograd::test
