// What benchmarks measure: times, the rate of copying, memory and energy.
#pragma once

#include "../../../../ir/machine/stopwatch.hpp"
#include "../../../../runtime/engine/engine.hpp"
#include "../../../../runtime/engine/traffic.hpp"
#include "../../../../runtime/rows/rows.hpp"
#include "../../../../solver/options.hpp"
#include "../../input/named_problem.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::command {

inline constexpr int kWarmUps = 3;
inline constexpr int kStepIterations = 100;  ///< conjugate gradient iterations of step100

/// Collects times of evaluations and the bytes that they move.
class BenchTimes {
 public:
  ///   copy_rate  bytes per second, read and written
  ///   only       requested names; empty: all. Throws Error{InvalidArgument} for an unknown name.
  BenchTimes(double copy_rate, runtime::Traffic traffic, int samples,
             std::vector<std::string> only);

  /// False after a signal (Interrupts): the report then has only the earlier times.
  bool wants(const std::string& name) const;
  int samples() const { return samples_; }
  const runtime::Traffic& traffic() const { return traffic_; }
  /// Median wall time of some work, after the warm-ups.
  template <class F>
  runtime::Timing wall(int samples, const F& work) const;
  void add(const std::string& name, const runtime::Timing& timing, std::uint64_t bytes);
  /// Adds NAME_us, NAME_wall_us, NAME_bytes, NAME_share_of_copy; copy_gb_s and share_of_copy.
  void write(nlohmann::ordered_json& report) const;

 private:
  double copy_rate_;
  runtime::Traffic traffic_;
  int samples_;
  std::vector<std::string> only_;
  nlohmann::ordered_json times_, shares_;
};

/// bytes / time / rate, the fraction of the copy bandwidth; null if one of them is unknown.
nlohmann::ordered_json share_of_copy(double bytes, double microseconds, double bytes_per_second);

template <class F>
runtime::Timing BenchTimes::wall(int samples, const F& work) const {
  std::vector<double> us;
  for (int k = 0; k < kWarmUps + samples; ++k) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> t = std::chrono::steady_clock::now() - start;
    if (k >= kWarmUps) us.push_back(t.count());
  }
  const double middle = median(std::move(us));
  return {.device_us = middle, .wall_us = middle};
}

/// Counts memory that this process allocates from now on.
class MemoryMeter {
 public:
  /// For the backend vulkan, opens the device first, if possible, as memory of the driver.
  explicit MemoryMeter(const SolverOptions& options);
  /// Keys: host_bytes, allocated since construction; device_bytes, allocated from the driver for
  /// the engine's device; memory, a list of {use, host, device}; and its sums, host_bytes_explained
  /// and device_bytes_explained.
  nlohmann::ordered_json report(NamedProblem& named, const runtime::Model& model,
                                runtime::Engine& engine) const;

 private:
  std::uint64_t before_ = 0, driver_ = 0;
  std::unique_ptr<runtime::RowRunner> opened_;
};

/// Energy since construction. The counters include all other load on the machine.
class EnergyMeter {
 public:
  EnergyMeter();

  struct Joules {
    std::optional<double> cpu;     ///< all packages, by RAPL (Linux powercap)
    std::optional<double> device;  ///< first card, by NVML
  };
  Joules used() const;

 private:
  std::vector<std::optional<std::uint64_t>> packages_;  ///< µJ
  std::optional<std::uint64_t> card_;                   ///< mJ
};

}  // namespace topograd::command
