// Times of the simulated machine.
#include "machine.hpp"

#include <cmath>

namespace topograd::test {

using namespace runtime::hybrid;

namespace {

struct KernelTimes {
  double cpu_overhead, cpu_item;  // µs
  double device_overhead, device_item;
  double bytes;  // per item, in and out
};
constexpr std::array<KernelTimes, Machine::kKernels> kTimes = {{
    {1, 0.0004, 4, 0.00001, 16},
    {2, 0.002, 5, 0.00005, 8},
    {2, 0.01, 6, 0.0001, 24},
    {3, 0.05, 12, 0.0008, 8},
    {5, 0.4, 40, 0.02, 32},
}};
constexpr double kSubmit = 30, kLatency = 8, kBytesPerUs = 12000;

std::array<std::uint64_t, 2> everything_there = {0, ~std::uint64_t{0}};

}  // namespace

TaskShape Machine::task(std::size_t kernel, std::uint64_t size) const {
  const auto bytes = static_cast<std::uint64_t>(kTimes[kernel].bytes * static_cast<double>(size));
  TaskShape shape{.kernel = {7, kernel}, .operation = "map", .size = size, .bytes_in = bytes};
  shape.bytes_out = kernel % 2 == 0 ? 8 : bytes;
  shape.features.operations = kTimes[kernel].cpu_item * 1000;
  shape.features.bytes = kTimes[kernel].bytes;
  if (kernel % 2 == 0) shape.resident = everything_there;
  return shape;
}

TaskShape Machine::random_task() {
  const std::size_t kernel = random_() % kKernels;
  const double exponent = std::uniform_real_distribution<double>(1, 7)(random_);
  return task(kernel, static_cast<std::uint64_t>(std::pow(10, exponent)));
}

Terms Machine::truth(const TaskShape& task, std::size_t target) const {
  const KernelTimes& times = kTimes[task.kernel.low];
  const auto size = static_cast<double>(task.size);
  if (target == kCpu) return {.kernel = slowdown[0] * (times.cpu_overhead + times.cpu_item * size)};
  const double f = slowdown[1];
  Terms terms{.submit = f * kSubmit,
              .kernel = f * (times.device_overhead + times.device_item * size),
              .read_back = f * (kLatency + static_cast<double>(task.bytes_out) / kBytesPerUs)};
  if (task.resident.empty())
    terms.upload = f * (kLatency + static_cast<double>(task.bytes_in) / kBytesPerUs);
  return terms;
}

Outcome Machine::run(const TaskShape& task, std::size_t target) {
  std::uniform_real_distribution<double> factor(1 - noise_, 1 + noise_);
  Outcome outcome{.times = truth(task, target)};
  for (double* part : {&outcome.times.upload, &outcome.times.submit, &outcome.times.kernel,
                       &outcome.times.read_back})
    *part *= factor(random_);
  if (target != kCpu) {
    outcome.bytes_up = task.resident.empty() ? task.bytes_in : 0;
    outcome.bytes_down = task.bytes_out;
  }
  now += outcome.times.work() * 1e-6;
  return outcome;
}

Decision step(Scheduler& scheduler, Machine& machine, const TaskShape& task, Trace& trace) {
  const double cpu = machine.truth(task, 0).work(), device = machine.truth(task, 1).work();
  const Decision decision = scheduler.decide(task);
  const Outcome outcome = machine.run(task, decision.target);
  scheduler.record(task, decision, outcome);
  const double best = std::min(cpu, device), chosen = decision.target == kCpu ? cpu : device;
  ++trace.tasks;
  trace.right += chosen < 1.1 * best ? 1 : 0;
  trace.on_device += decision.target == kCpu ? 0 : 1;
  trace.explored += decision.reason == Reason::explored ? 1 : 0;
  trace.us += chosen;
  trace.oracle_us += best;
  return decision;
}

void warm_up(Scheduler& scheduler, Machine& machine) {
  for (std::size_t kernel = 0; kernel < Machine::kKernels; ++kernel)
    for (const std::uint64_t size : {100u, 1000u, 10000u, 100000u, 1000000u, 10000000u})
      for (const std::size_t target : {0, 1})
        for (int k = 0; k < 5; ++k) {
          const TaskShape task = machine.task(kernel, size);
          scheduler.record(task, target, machine.run(task, target));
        }
}

}  // namespace topograd::test
