// Timing of operations.
#include "bench_ops_times.hpp"

#include "../measure/measure.hpp"

#include "../../../../ops/backend/backend.hpp"

namespace topograd::command {
namespace {

constexpr double kWarmUpMicroseconds = 1'000'000, kWarmUpOfSoftware = 20'000;
// Total time of the samples; longer work is timed once.
constexpr double kEnoughMicroseconds = 5'000'000, kEnoughOfSoftware = 1'000'000;

}  // namespace

Times time_on(const ops::Device& device, int samples, const std::function<void()>& work) {
  ops::OpBackend& backend = device.backend();
  std::vector<double> clock, wall;
  // Devices that were idle while the CPU was timed need time to reach their clock rates.
  const bool software = device.facts().kind == "software";
  const double warm = software ? kWarmUpOfSoftware : kWarmUpMicroseconds;
  const double most = software ? kEnoughOfSoftware : kEnoughMicroseconds;
  const double enough = device.is_cpu() ? 0 : warm;
  double spent = 0;
  for (int k = 0; k < 1 || (!device.is_cpu() && k < 2) || spent < enough; ++k) {
    spent += wall_us([&] {
      work();
      backend.synchronise();
    });
  }
  double sampled = 0;
  for (int k = 0; k < samples && sampled < most; ++k) {
    double by_clock = 0;
    backend.synchronise();
    backend.clock().begin();
    const double us = wall_us([&] {
      work();
      backend.synchronise();
    });
    backend.clock().end([&](std::optional<double> told) { by_clock = told.value_or(0); });
    backend.synchronise();
    sampled += us;
    wall.push_back(us);
    clock.push_back(by_clock > 0 ? by_clock : us);
  }
  return {median(clock), median(wall)};
}

double time_with_transfers(int samples, const std::function<std::function<void()>()>& make) {
  std::vector<double> times;
  for (int k = 0; k < samples; ++k) times.push_back(wall_us(make()));
  return median(times);
}

}  // namespace topograd::command
