// topograd bench ops, and what info says of operations.
#include "command/bench_ops.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/ops/sort.hpp>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using ops::Array;
using ops::Device;
using ops::OpOptions;

constexpr std::uint64_t kLargest = 100'000'000, kLargestOnSoftware = 1'000'000;
// Inputs, results and what is between of the hungriest operation, in bytes an element.
constexpr std::uint64_t kBytesOfElement = 40;
constexpr double kWarmUpMicroseconds = 1'000'000;

/// What operations read.
struct Inputs {
  Array<float> x, y;
  Array<std::uint32_t> keys, places;
};

Inputs make_inputs(std::uint64_t count, const Device& device) {
  Inputs in{Array<float>(count), Array<float>(count), Array<std::uint32_t>(count),
            Array<std::uint32_t>(count)};
  std::uint64_t state = 88172645463325252ull;
  const std::span<float> x = in.x.write(), y = in.y.write();
  const std::span<std::uint32_t> keys = in.keys.write(), places = in.places.write();
  for (std::uint64_t i = 0; i < count; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    x[i] = static_cast<float>(state >> 40) * 0x1p-24f;
    y[i] = static_cast<float>(state >> 20 & 0xffff) * 0x1p-16f;
    keys[i] = static_cast<std::uint32_t>(state);
    places[i] = static_cast<std::uint32_t>((state >> 32) % count);
  }
  in.x.to(device), in.y.to(device), in.keys.to(device), in.places.to(device);
  return in;
}

/// Ten operations on one element.
Value ten(const Value& v) {
  const Value a = v * 1.5 + 0.25, b = a * a - v, c = b * 0.5 + a;
  return (c - 1.0) * c + b;
}

struct Case {
  const char* name;
  double bytes;  ///< read and written once, an element
  std::function<void(const Inputs&, const OpOptions&)> run;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"map", 8,
       [](const Inputs& in, const OpOptions& o) {
         map(
             o, [](Value v) { return v * 2.0 + 1.0; }, in.x);
       }},
      {"zip", 12,
       [](const Inputs& in, const OpOptions& o) {
         zip([](Value a, Value b) { return a * b; }, in.x, in.y, o);
       }},
      {"map of ten", 8, [](const Inputs& in, const OpOptions& o) { map(o, ten, in.x); }},
      {"ten maps", 80,
       [](const Inputs& in, const OpOptions& o) {
         Array<float> a = in.x;
         for (int k = 0; k < 10; ++k)
           a = map(
               o, [](Value v) { return v * 1.5; }, a);
       }},
      {"reduce", 4, [](const Inputs& in, const OpOptions& o) { sum(in.x, o); }},
      {"dot", 8, [](const Inputs& in, const OpOptions& o) { dot(in.x, in.y, o); }},
      {"argmax", 4, [](const Inputs& in, const OpOptions& o) { argmax(in.x, o); }},
      {"scan", 8,
       [](const Inputs& in, const OpOptions& o) { inclusive_scan(in.x, ops::Reduction::sum, o); }},
      {"gather", 12,
       [](const Inputs& in, const OpOptions& o) {
         gather(in.x, in.places, ops::IndexCheck::none, o);
       }},
      {"scatter", 16,
       [](const Inputs& in, const OpOptions& o) {
         Array<float> target = in.y;
         scatter(in.x, in.places, target, ops::Combine::add, ops::IndexCheck::none, o);
       }},
      {"sort", 8, [](const Inputs& in, const OpOptions& o) { sort(in.keys, o); }},
      {"argsort", 8, [](const Inputs& in, const OpOptions& o) { argsort(in.keys, o); }},
  };
  return all;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

template <class F>
double wall_us(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Times {
  double clock = 0, wall = 0;
};

/// Medians; the device's clock where it has one, else the wall's.
Times time_on(const Device& device, int samples, const std::function<void()>& work) {
  ops::Backend& backend = device.backend();
  std::vector<double> clock, wall;
  // Devices that have idled while the CPU was timed take a while to reach their clocks.
  const double enough = device.is_cpu() ? 0 : kWarmUpMicroseconds;
  double spent = 0;
  for (int k = 0; k < 2 || spent < enough; ++k) {
    spent += wall_us([&] {
      work();
      backend.synchronise();
    });
  }
  for (int k = 0; k < samples; ++k) {
    double by_clock = 0;
    backend.synchronise();
    backend.begin_timing();
    const double us = wall_us([&] {
      work();
      backend.synchronise();
    });
    backend.end_timing([&](std::optional<double> told) { by_clock = told.value_or(0); });
    backend.synchronise();
    wall.push_back(us);
    clock.push_back(by_clock > 0 ? by_clock : us);
  }
  return {median(clock), median(wall)};
}

double time_with_transfers(const Case& one, const Device& device, const Inputs& host) {
  std::vector<double> times;
  for (int k = 0; k < 3; ++k) {
    times.push_back(wall_us([&] {
      const Inputs fresh{Array<float>(host.x.read()), Array<float>(host.y.read()),
                         Array<std::uint32_t>(host.keys.read()),
                         Array<std::uint32_t>(host.places.read())};
      one.run(fresh, {.device = device});
      device.synchronise();
    }));
  }
  return median(times);
}

/// The faster of the driver's copy command and a kernel: some drivers leave commands to an engine
/// that is slower than the memory.
double copy_rate(const Device& device, const Inputs& in, int samples) {
  const Array<float> to(in.x.size());
  ops::Backend& backend = device.backend();
  const ops::Argument source = in.x.untyped().reads(backend);
  const ops::Argument target = to.untyped().writes(backend);
  const double by_command = time_on(device, samples, [&] {
                              backend.copy(source.memory, 0, target.memory, 0, source.bytes);
                            }).clock;
  const double by_kernel = time_on(device, samples, [&] {
                             map(
                                 {.device = device}, [](Value v) { return v; }, in.x);
                           }).clock;
  return 2 * static_cast<double>(source.bytes) / std::min(by_command, by_kernel) * 1e-3;
}

Device device_for(const OpsArguments& a) {
  if (a.backend == "cpu") return Device::cpu();
  if (!a.device.empty() || a.backend == "vulkan" || a.backend == "gpu")
    return Device::vulkan(a.device);
  return Device::best();
}

std::vector<std::uint64_t> sizes_for(const OpsArguments& a, const Device& device) {
  if (a.count) return {std::max<std::uint64_t>(*a.count, 1)};
  const bool software = device.is_cpu() || device.facts().kind == "software";
  const std::uint64_t memory = device.facts().memory_bytes;
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = 1000; n <= (software ? kLargestOnSoftware : kLargest); n *= 10) {
    if (memory == 0 || n * kBytesOfElement < memory) out.push_back(n);
  }
  return out;
}

/// The size from which on the device wins; 0 if it loses at the largest.
std::uint64_t crossover(const std::vector<std::pair<std::uint64_t, bool>>& wins) {
  std::uint64_t from = 0;
  for (auto row = wins.rbegin(); row != wins.rend() && row->second; ++row) from = row->first;
  return from;
}

ordered_json row_for(const Case& one, std::uint64_t count, const Device& device, const Inputs& host,
                     int samples) {
  ordered_json row{{"op", one.name}, {"count", count}};
  const int fewer = count >= 10'000'000 ? std::min(samples, 3) : samples;
  row["cpu_us"] =
      time_on(Device::cpu(), fewer, [&] { one.run(host, {.device = Device::cpu()}); }).wall;
  if (count <= 10'000'000) {
    const tbb::global_control single(tbb::global_control::max_allowed_parallelism, 1);
    row["cpu_one_us"] = time_on(Device::cpu(), std::min(samples, 3), [&] {
                          one.run(host, {.device = Device::cpu()});
                        }).wall;
  }
  if (device.is_cpu()) return row;
  const Inputs there = make_inputs(count, device);
  try {
    const Times times = time_on(device, samples, [&] { one.run(there, {.device = device}); });
    row["device_us"] = times.clock;
    row["device_wall_us"] = times.wall;
    row["gb_s"] = one.bytes * static_cast<double>(count) / times.clock * 1e-3;
    if (count <= 10'000'000) row["transfers_wall_us"] = time_with_transfers(one, device, host);
  } catch (const Error& error) {
    row["problem"] = error.what();
  }
  return row;
}

}  // namespace

ordered_json run_bench_ops(const OpsArguments& arguments) {
  const Device device = device_for(arguments);
  ordered_json report;
  report["device"] = device.name();
  report["cpu_threads"] = tbb::info::default_concurrency();
  ordered_json rows = ordered_json::array();
  std::map<std::string, std::vector<std::pair<std::uint64_t, bool>>> wins;
  double rate = 0;
  for (const std::uint64_t count : sizes_for(arguments, device)) {
    const Inputs host = make_inputs(count, Device::cpu());
    if (!device.is_cpu()) {
      const Inputs there = make_inputs(count, device);
      rate = copy_rate(device, there, arguments.samples);
    }
    for (const Case& one : cases()) {
      ordered_json row = row_for(one, count, device, host, arguments.samples);
      if (row.contains("gb_s")) row["share_of_copy"] = row["gb_s"].get<double>() / rate;
      const bool faster = row.contains("device_wall_us") && row["device_wall_us"] < row["cpu_us"];
      wins[one.name].emplace_back(count, faster);
      rows.push_back(std::move(row));
    }
  }
  if (!device.is_cpu()) report["copy_gb_s"] = rate;
  report["rows"] = std::move(rows);
  if (!device.is_cpu()) {
    for (const Case& one : cases()) report["crossover"][one.name] = crossover(wins[one.name]);
  }
  return report;
}

ordered_json describe_operations() {
  ordered_json out = ordered_json::array();
  for (const ops::OpRow& row : ops::kOpTable) {
    const ops::OpMeasurement known = ops::measured(row.op);
    ordered_json one{{"op", row.name},
                     {"unit", row.unit},
                     {"first_minimum", row.minimum},
                     {"first_factor", row.factor},
                     {"threshold", known.threshold},
                     {"kernels_measured", known.measured}};
    one["measured_factor"] =
        known.measured > 0 ? ordered_json(known.factor) : ordered_json("not measured");
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace topograd::command
