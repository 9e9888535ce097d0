// How samples of the hybrid executor time a task: on one thread, on all threads, on a device, and
// as the executor decides.
#pragma once

#include <topograd/api/hybrid.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace sample {

/// A place to run a task, and the number of threads; 0: all.
struct Way {
  const char* name;
  topograd::hybrid::Override where;
  std::uint64_t threads;
};

/// The ways to run a task on this machine.
inline std::vector<Way> ways(bool device) {
  using topograd::hybrid::Override;
  std::vector<Way> out = {{"CPU, one thread", Override::cpu, 1},
                          {"CPU, all threads", Override::cpu, 0}};
  if (device) out.push_back({"device", Override::device, 0});
  out.push_back({"as decided", Override::none, 0});
  return out;
}

/// The median time in µs of `runs` runs, after one that does not count; transfers are included.
inline double median_us(topograd::hybrid::Executor& executor, int runs,
                        const std::function<void()>& run) {
  std::vector<double> us;
  run();
  for (int k = 0; k < runs; ++k) {
    const double start = executor.scheduler().now();
    run();
    us.push_back(1e6 * (executor.scheduler().now() - start));
  }
  std::ranges::sort(us);
  return us[us.size() / 2];
}

}  // namespace sample
