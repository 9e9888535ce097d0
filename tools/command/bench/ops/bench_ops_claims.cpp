// Measures published speedups of similar systems, and long training.
#include "bench_ops_claims.hpp"

#include "../measure/measure.hpp"
#include "bench_ops_cases.hpp"

#include "../../../../ir/error.hpp"
#include "../../../../ir/machine/platform.hpp"
#include "../../../../ops/arrays.hpp"
#include "../../../../ops/backend/backend.hpp"
#include "../../../../ops/run/run.hpp"
#include "../../../../ops/tensors.hpp"
#include "../../../../solver/interrupts.hpp"

#include <tbb/global_control.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using ops::Array;
using ops::Device;
using ops::Tensor;

// Fewer samples are taken if a CPU thread needs longer than this.
constexpr double kSlowMicroseconds = 1e6;
constexpr double kEnergyMicroseconds = 5e5;
// A row is skipped if one run is estimated to take longer on the device.
constexpr double kMostMicroseconds = 1e7;

/// A published speedup and its work, from host numbers to a function that reads the result.
struct Claim {
  const char* name;
  double goal;          ///< 0: none was published
  std::uint64_t count;  ///< size of the inputs
  OpWork (*prepare)(const OpInputs& inputs, const Device& device);
  double multiply_adds = 0;  ///< of one run, where these are most of the time
};

Tensor matrix(const Array<float>& x, std::int64_t n) {
  return ops::tensor(x.slice(0, static_cast<std::uint64_t>(n * n)), {n, n});
}

template <int N>
OpWork product(const OpInputs& in, const Device&) {
  return [a = matrix(in.x, N), b = matrix(in.y, N)] { return reading(ops::matmul(a, b)); };
}

template <Tensor (*F)(const Tensor&)>
OpWork of_rows(const OpInputs& in, const Device&) {
  return [x = ops::tensor(in.x, {1000, 1000})] { return reading(F(x)); };
}
Tensor softmax_of_rows(const Tensor& x) { return ops::softmax(x); }

OpWork filter(const OpInputs& in, const Device&) {
  return [image = ops::tensor(in.x, {2160, 3840})] {
    return reading(ops::filter2d(image, std::vector<double>{1, 2, 1, 0, 3, 0, -1, -2, 5}, 3, 3));
  };
}

/// A frame of a film, blurred by 9 x 9 weights of a Gaussian.
OpWork blur(const OpInputs& in, const Device&) {
  std::vector<double> weights;
  for (int k = 0; k < 81; ++k) {
    const int row = k / 9 - 4, column = k % 9 - 4;
    weights.push_back(std::exp(-(row * row + column * column) / 8.0) / 25);
  }
  return [weights, frame = ops::tensor(in.x, {1080, 1920})] {
    return reading(ops::filter2d(frame, weights, 9, 9));
  };
}

OpWork transform(const OpInputs& in, const Device&) {
  return [z = ops::tensor(in.x, {1 << 20, 2})] { return reading(ops::fft(z)); };
}

OpWork monte_carlo(const OpInputs&, const Device& device) {
  return [device] {
    const Tensor z = ops::randn({10'000'000}, 1, ops::Type::f32, device);
    return reading(ops::mean(ops::map(
        [](const Value& n) { return max(100.0 * exp(0.01 + 0.2 * n) - 105.0, literal(0)); }, z)));
  };
}

OpWork inference(const OpInputs& in, const Device& device) {
  const ops::nn::Sequential net{ops::nn::Dense(784, 512, 1), ops::relu, ops::nn::Dense(512, 10, 2)};
  net.to(device);
  return [net, x = ops::tensor(in.x, {1000, 784})] {
    const ops::NoGrad guard;
    return reading(ops::argmax(net(x)));
  };
}

/// The first part of the next claim, alone.
OpWork forward(const OpInputs& in, const Device& device) {
  const ops::nn::Sequential net{ops::nn::Dense(784, 512, 1), ops::relu, ops::nn::Dense(512, 10, 2)};
  net.to(device);
  return [net, x = ops::tensor(in.x, {128, 784})] {
    const ops::NoGrad guard;
    return reading(net(x));
  };
}

OpWork value_at_risk(const OpInputs&, const Device& device) {
  const Tensor loadings = ops::randn({6, 40}, 1, ops::Type::f32, device);
  const Tensor weights = ops::rand({40, 1}, 2, ops::Type::f32, device);
  return [=] {
    const Tensor factors = ops::randn({100'000, 6}, 3, ops::Type::f32, device);
    const Tensor noise = ops::randn({100'000, 40}, 4, ops::Type::f32, device);
    const Tensor returns = ops::matmul(factors, loadings) + noise;
    return reading(ops::top_k(ops::matmul(returns, weights).reshape({100'000}), 1000).values);
  };
}

const Claim kClaims[] = {
    {"map of 1 M", 37, 1'000'000,
     [](const OpInputs& in, const Device&) -> OpWork {
       return [in] { return reading(map([](Value v) { return v * 2.0 + 1.0; }, in.x)); };
     }},
    {"reduce of 1 M", 29, 1'000'000,
     [](const OpInputs& in, const Device&) -> OpWork {
       return [in] { return reading(sum(in.x)); };
     }},
    {"matmul 512^3", 85, 512 * 512, product<512>},
    {"3x3 filter on 4K", 111, 3840 * 2160, filter},
    {"video blur, 9x9, a frame of 1080p", 0, 1080 * 1920, blur},
    {"FFT of 1 M", 36, 2 << 20, transform},
    {"sort of 1 M", 35, 1'000'000,
     [](const OpInputs& in, const Device&) -> OpWork {
       return [in] { return reading(sort(in.x)); };
     }},
    {"vector add of 10,000", 100, 10'000,
     [](const OpInputs& in, const Device&) -> OpWork {
       return [in] { return reading(zip([](Value a, Value b) { return a + b; }, in.x, in.y)); };
     }},
    {"vector add of 1 M", 0, 1'000'000,
     [](const OpInputs& in, const Device&) -> OpWork {
       return [in] { return reading(zip([](Value a, Value b) { return a + b; }, in.x, in.y)); };
     }},
    {"ReLU of 1 M", 100, 1'000'000, of_rows<ops::relu>},
    {"softmax of 1 M", 100, 1'000'000, of_rows<softmax_of_rows>},
    {"matmul 1024^3", 200, 1024 * 1024, product<1024>, 1024.0 * 1024 * 1024},
    {"matmul 4096^3", 200, 4096 * 4096, product<4096>, 4096.0 * 4096 * 4096},
    {"forward, 784-512-10, 128 pictures", 0, 128 * 784, forward},
    {"backward, 784-512-10, 128 pictures", 0, 1,
     [](const OpInputs&, const Device& device) { return backward_work({}, device); }},
    {"forward and backward, 784-512-10, 128 pictures", 100, 1,
     [](const OpInputs&, const Device& device) { return forward_backward_work({}, device); }},
    {"Monte Carlo, 10^7 paths", 56, 1, monte_carlo},
    {"inference, 1,000 pictures", 57, 784'000, inference},
    {"value at risk, 10^5 scenarios", 21, 1, value_at_risk},
};

ordered_json joules(const std::optional<double>& of) {
  return of ? ordered_json(*of) : ordered_json("not measured");
}

/// Joules of one run, averaged over as many runs as take half a second.
EnergyMeter::Joules energy_of(const Device& device, double us, const OpWork& work) {
  const int runs = static_cast<int>(std::max(1.0, std::ceil(kEnergyMicroseconds / us)));
  const EnergyMeter meter;
  for (int k = 0; k < runs; ++k) work();
  device.synchronise();
  EnergyMeter::Joules used = meter.used();
  if (used.cpu) *used.cpu /= runs;
  if (used.device) *used.device /= runs;
  return used;
}

int samples_for(double us, int samples) { return us > kSlowMicroseconds ? 1 : samples; }

ordered_json named_row(const Claim& claim) {
  return {{"claim", claim.name}, {"goal", claim.goal > 0 ? ordered_json(claim.goal) : nullptr}};
}

/// Joules of one run by stated watts; nothing if a number is missing.
std::optional<double> stated_joules(const std::optional<double>& watts, const ordered_json& us) {
  if (!watts || !us.is_number()) return std::nullopt;
  return *watts * 1e-6 * us.get<double>();
}

/// Adds the energy that follows from stated watts: of all CPU threads, and of the device with the
/// transfers, during which it waits.
void add_stated(ordered_json& row, const StatedWatts& watts) {
  if (!row.contains("cpu_us")) return;
  const std::optional<double> cpu = stated_joules(watts.cpu, row["cpu_us"]);
  const std::optional<double> device = stated_joules(watts.device, row["transfers_us"]);
  if (cpu) row["stated_cpu_joules"] = *cpu;
  if (device) row["stated_device_joules"] = *device;
}

ordered_json row_for(const Claim& claim, const Device& device, int samples) {
  const Device cpu = Device::cpu();
  const OpInputs host = make_op_inputs(claim.count, cpu);
  const OpInputs there = fresh_op_inputs(host, device);
  const OpWork on_cpu = claim.prepare(host, cpu), on_device = claim.prepare(there, device);
  ordered_json row = named_row(claim);
  const double first = wall_us([&] { on_cpu(); });
  const double all = time_on(cpu, samples_for(first, samples), [&] { on_cpu(); }).wall;
  double one = 0;
  {
    const ops::UnrecordedRuns alone;
    const tbb::global_control single(tbb::global_control::max_allowed_parallelism, 1);
    const double once = wall_us([&] { on_cpu(); });
    one = once > kSlowMicroseconds ? once : time_on(cpu, samples, [&] { on_cpu(); }).wall;
  }
  const double without = time_on(device, samples, [&] { on_device(); }).wall;
  const double with = time_with_transfers(samples, [&]() -> std::function<void()> {
    return [run = claim.prepare(fresh_op_inputs(host, device), device)] { run()(); };
  });
  row["cpu_one_us"] = one;
  row["cpu_us"] = all;
  row["device_us"] = without;
  row["transfers_us"] = with;
  row["times_one"] = one / without;
  row["times_all"] = all / without;
  row["times_one_with_transfers"] = one / with;
  row["times_all_with_transfers"] = all / with;
  row["cpu_joules"] = joules(energy_of(cpu, all, on_cpu).cpu);
  row["device_joules"] = joules(energy_of(device, without, on_device).device);
  return row;
}

/// Multiply-adds of f32 of a matrix product.
double multiply_adds_per_us(const Device& device, int samples) {
  constexpr double kSide = 512;
  const OpInputs host = make_op_inputs(512 * 512, Device::cpu());
  const OpWork work = product<512>(fresh_op_inputs(host, device), device);
  return kSide * kSide * kSide / time_on(device, samples, [&] { work(); }).wall;
}

/// A claim that would take too long, or that the device cannot run, is a row with the reason: the
/// others are still of use.
ordered_json row_or_reason(const Claim& claim, const Device& device, int samples, double rate) {
  ordered_json row = named_row(claim);
  const double us = claim.multiply_adds / rate;
  if (us > kMostMicroseconds) {
    char text[120];
    std::snprintf(text, sizeof text,
                  "one run would take about %.0f s, more than the limit of %.0f s", 1e-6 * us,
                  1e-6 * kMostMicroseconds);
    row["skipped"] = text;
    return row;
  }
  try {
    return row_for(claim, device, samples);
  } catch (const Error& error) {
    row["problem"] = error.what();
  }
  return row;
}

}  // namespace

namespace {

constexpr const char* kRatios[] = {"times_one", "times_all", "times_one_with_transfers",
                                   "times_all_with_transfers"};

/// Mean share of energy that the device saves, over the rows with both numbers.
ordered_json mean_saved(const ordered_json& rows, const char* cpu, const char* device) {
  double saved = 0;
  int measured = 0;
  for (const ordered_json& row : rows) {
    if (!row.contains(cpu) || !row.contains(device)) continue;
    if (!row[cpu].is_number() || !row[device].is_number()) continue;
    saved += 1 - row[device].get<double>() / row[cpu].get<double>();
    ++measured;
  }
  return measured > 0 ? ordered_json(saved / measured) : ordered_json("not measured");
}

ordered_json mean_of(const ordered_json& rows, const StatedWatts& watts) {
  ordered_json mean{{"claim", "mean"}, {"goal", 55}, {"rows", rows.size()}};
  for (const char* ratio : kRatios) {
    double sum = 0;
    for (const ordered_json& row : rows) sum += row[ratio].get<double>();
    mean[ratio] = rows.empty() ? ordered_json("not measured")
                               : ordered_json(sum / static_cast<double>(rows.size()));
  }
  mean["energy_goal"] = 0.96;
  mean["energy_saved"] = mean_saved(rows, "cpu_joules", "device_joules");
  if (!watts.cpu || !watts.device) return mean;
  mean["stated_cpu_watts"] = *watts.cpu;
  mean["stated_device_watts"] = *watts.device;
  mean["stated_energy_saved"] = mean_saved(rows, "stated_cpu_joules", "stated_device_joules");
  return mean;
}

}  // namespace

ordered_json claim_rows(const Device& device, const ClaimOptions& options) {
  ordered_json rows = ordered_json::array(), measured = ordered_json::array();
  std::vector<const Claim*> asked;
  for (const Claim& claim : kClaims)
    if (std::string_view(claim.name).find(options.only) != std::string_view::npos)
      asked.push_back(&claim);
  if (asked.empty()) {
    std::string names;
    for (const Claim& claim : kClaims)
      names += (names.empty() ? "" : "; ") + std::string(claim.name);
    throw Error(ErrorCode::InvalidArgument,
                "bench ops: expected --claim with a part of a claim's name (" + names +
                    "), got \"" + options.only + '"');
  }
  const double rate = multiply_adds_per_us(device, options.samples);
  for (const Claim* claim : asked) {
    if (Interrupts::came()) return rows;  // a mean of some rows would be wrong
    ordered_json row = row_or_reason(*claim, device, options.samples, rate);
    add_stated(row, options.watts);
    if (row.contains("times_one")) measured.push_back(row);
    rows.push_back(std::move(row));
  }
  rows.push_back(mean_of(measured, options.watts));
  return rows;
}

ordered_json training_report(const Device& device, int steps) {
  constexpr NetworkSize kSmall{.pictures = 64, .pixels = 64, .hidden = 32};
  ordered_json out{{"steps", steps}};
  const auto step = training_steps(kSmall, device), on_cpu = training_steps(kSmall, Device::cpu());
  double loss = 0, loss_on_cpu = 0;
  for (int k = 1; k <= steps && !Interrupts::came(); ++k) {
    const Tensor last = step();
    if (k != steps / 10 && k != steps) continue;
    const char* const when = k == steps ? "end" : "tenth";
    loss = last.item();
    device.synchronise();
    out["device_bytes"][when] = device.backend().counters().bytes_in_use;
    out["resident_bytes"][when] = platform::resident_bytes();
  }
  // Rounding errors grow with each step: the losses are compared while they still agree.
  constexpr int kCompared = 200;
  const auto again = training_steps(kSmall, device);
  for (int k = 0; k < std::min(steps, kCompared) && !Interrupts::came(); ++k) {
    out["loss_after_200"]["device"] = again().item();
    loss_on_cpu = on_cpu().item();
  }
  out["loss_after_200"]["cpu"] = loss_on_cpu;
  out["loss"] = loss;
  return out;
}

}  // namespace topograd::command
