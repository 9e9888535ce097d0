// Times of a bench report, each beside what it is measured against.
#pragma once

#include "../../../../ir/median.hpp"
#include "../../../../runtime/engine/traffic.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace topograd::command {

inline constexpr int kWarmUps = 3;
inline constexpr int kStepIterations = 100;  ///< of conjugate gradients in step100

/// Collects times of evaluations with the bytes that they move.
class BenchTimes {
 public:
  ///   copy_rate  bytes a second, read and written
  ///   only       names that are wanted; empty: all. Throws Error{InvalidArgument} for one that is
  ///              no name of a time.
  BenchTimes(double copy_rate, runtime::Traffic traffic, int samples,
             std::vector<std::string> only);

  /// False from a signal on (Interrupts): the report has the times that were taken before.
  bool wants(const std::string& name) const;
  int samples() const { return samples_; }
  const runtime::Traffic& traffic() const { return traffic_; }
  /// Median wall time of a piece of work, after the warm-ups.
  template <class F>
  runtime::Timing wall(int samples, const F& work) const;
  void add(const std::string& name, const runtime::Timing& timing, std::uint64_t bytes);
  /// NAME_us, NAME_wall_us, NAME_bytes, NAME_share_of_copy; copy_gb_s and share_of_copy.
  void write(nlohmann::ordered_json& report) const;

 private:
  double copy_rate_;
  runtime::Traffic traffic_;
  int samples_;
  std::vector<std::string> only_;
  nlohmann::ordered_json times_, shares_;
};

/// bytes / time / rate, the share of the copy bandwidth; null if one of them is not known.
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

}  // namespace topograd::command
