// Compares the executor's decisions for arrays and tensors with measurements on both backends.
#include "routing_parts.hpp"

#include "../../../ir/machine/stopwatch.hpp"
#include "../../../ir/median.hpp"
#include "../../../ops/arrays.hpp"
#include "../../../ops/run/run.hpp"
#include "../../../ops/run/scope.hpp"
#include "../../../ops/tensors.hpp"
#include "../../../solver/interrupts.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::check {
namespace {

using ops::Array;
using ops::Device;
using ops::Shape;
using ops::Tensor;
using runtime::hybrid::Reason;

// Runs of each piece on each backend that train the executor before it decides; the first compiles,
// the second is the first sample.
constexpr int kRuns = 5;

/// Reads its results on the host; returns a number that tells if they are right.
using Piece = std::function<double()>;

struct OperationCase {
  const char* name;
  std::vector<std::uint64_t> sizes;
  std::function<Piece(std::uint64_t size)> make;
};

std::vector<float> ramp(std::uint64_t size) {
  std::vector<float> out(size);
  for (std::uint64_t k = 0; k < size; ++k) out[k] = 1e-3f * static_cast<float>(k % 1000);
  return out;
}
/// Makes an array whose operands come from the host each time.
Array<float> array(const std::vector<float>& numbers) {
  return Array<float>(std::span<const float>(numbers));
}
Tensor matrix(const std::vector<float>& numbers, std::int64_t rows) {
  return ops::tensor(std::span<const float>(numbers),
                     {rows, static_cast<std::int64_t>(numbers.size()) / rows});
}
double last_of(const Array<float>& x) { return x.read().back(); }
double last_of(const Tensor& x) { return x.floats().back(); }

/// A training step of a small network on numbers from the host; the weights stay on their backend.
Piece training_step(std::uint64_t width) {
  const auto n = static_cast<std::int64_t>(width);
  struct State {
    std::vector<float> x, y;
    Tensor first, second;
    std::unique_ptr<ops::nn::Sgd> optimizer;
  };
  auto s = std::make_shared<State>();
  s->x = ramp(128 * width);
  s->y = ramp(128 * 10);
  s->first = (ops::randn({n, n}, 1) * 0.01).evaluate().detach();
  s->second = (ops::randn({n, 10}, 2) * 0.01).evaluate().detach();
  s->first.requires_grad();
  s->second.requires_grad();
  s->optimizer = std::make_unique<ops::nn::Sgd>(std::vector{s->first, s->second},
                                                ops::nn::SgdOptions{.rate = 1e-6});
  return [s] {
    const Tensor hidden = ops::relu(ops::matmul(matrix(s->x, 128), s->first));
    const Tensor error = ops::matmul(hidden, s->second) - matrix(s->y, 128);
    const Tensor loss = ops::mean(ops::square(error));
    s->optimizer->zero_grad();
    loss.backward();
    s->optimizer->step();
    loss.item();
    return 0.0;  // differs between steps
  };
}

std::vector<OperationCase> cases() {
  const std::vector<std::uint64_t> elements = {1000, 10'000, 60'000, 300'000, 1'000'000, 4'000'000};
  const auto of_numbers = [&](const char* name, double (*run)(const std::vector<float>&)) {
    return OperationCase{name, elements, [run](std::uint64_t size) -> Piece {
                           return [run, x = ramp(size)] { return run(x); };
                         }};
  };
  const auto of_matrices = [&](const char* name, std::vector<std::uint64_t> sizes,
                               double (*run)(const std::vector<float>&, std::int64_t)) {
    return OperationCase{name, std::move(sizes), [run](std::uint64_t size) -> Piece {
                           return [run, x = ramp(size * size),
                                   n = static_cast<std::int64_t>(size)] { return run(x, n); };
                         }};
  };
  return {
      of_numbers("map",
                 [](auto& x) {
                   return last_of(ops::map([](Value v) { return v * 3.0 + 1.0; }, array(x)));
                 }),
      of_numbers("map of sixty operations",
                 [](auto& x) {
                   return last_of(ops::map(
                       [](Value v) {
                         for (int k = 0; k < 20; ++k) v = exp(-v * v);
                         return v;
                       },
                       array(x)));
                 }),
      of_numbers("sum", [](auto& x) { return double{ops::sum(array(x)).item()}; }),
      of_numbers("scan", [](auto& x) { return last_of(ops::inclusive_scan(array(x))); }),
      of_numbers("sort", [](auto& x) { return last_of(ops::sort(array(x))); }),
      of_numbers("histogram",
                 [](auto& x) { return double(ops::histogram(array(x), {.count = 64}).read()[1]); }),
      of_numbers("three maps and a sum",
                 [](auto& x) {
                   Array<float> y = ops::map([](Value v) { return v * 0.5 - 2.0; }, array(x));
                   y = ops::map([](Value v) { return sin(v); }, y);
                   y = ops::map([](Value v) { return v * v; }, y);
                   return double{ops::sum(y).item()};
                 }),
      of_matrices("matmul", {32, 64, 128, 256, 512},
                  [](auto& x, auto n) { return last_of(ops::matmul(matrix(x, n), matrix(x, n))); }),
      of_matrices("softmax", {32, 128, 512, 1024},
                  [](auto& x, auto n) { return last_of(ops::softmax(matrix(x, n))); }),
      of_matrices("fft", {32, 128, 512, 1024},
                  [](auto& x, auto n) {
                    return last_of(ops::fft(matrix(x, n).reshape({n, n / 2, 2})));
                  }),
      of_matrices("two products and a sum", {64, 128, 256, 512},
                  [](auto& x, auto n) {
                    const Tensor a = matrix(x, n) * (1 / static_cast<double>(n));
                    return ops::sum(ops::matmul(ops::relu(ops::matmul(a, a)), a)).item();
                  }),
      {"training step", {32, 64, 128, 256, 512}, training_step},
  };
}

/// One piece at one size.
struct Measured {
  const OperationCase* one = nullptr;
  Piece on_cpu, on_device, anywhere;
  double expected = 0;
  Sides sides;
  std::vector<double> expected_cpu, expected_device;
  bool teaches = false;
};

/// Decisions for a piece's operations: the reason of the first, and the predicted time of all.
struct Seen {
  std::optional<Reason> reason = {};
  double cpu_us = 0, device_us = 0;
};

/// One call of the trace.
struct Call {
  std::size_t piece = 0;
  bool on_cpu = true;
  Seen seen;
};

double timed(const Piece& piece, double& result) {
  const auto start = std::chrono::steady_clock::now();
  result = piece();
  return 1e6 * seconds_since(start);
}

class OperationsCheck {
 public:
  OperationsCheck(const RoutingOptions& options, Device device, std::mt19937_64& random,
                  RoutingReport& report)
      : options_(options), device_(std::move(device)), random_(random), report_(report) {}

  void run() {
    ops::executor().set_observer([this](auto, auto, const auto& stats) {
      const runtime::hybrid::Decision& d = stats.decision;
      if (!seen_.reason) seen_.reason = d.reason;
      seen_.cpu_us += d.on_cpu.terms.work();
      seen_.device_us += d.on_device.terms.work();
    });
    find_sizes();
    teach();
    trace();
    report();
  }

 private:
  double most_us() const { return 1e6 * options_.seconds / 500; }

  void run_on(const Device& device, const Piece& piece, std::vector<double>& times, Measured& of) {
    const ops::OnDevice scope(device);
    double result = 0;
    times.push_back(timed(piece, result));
    judge(of, result);
  }
  void judge(const Measured& of, double result) {
    const double bound = 1e-3 * std::max(1.0, std::abs(of.expected));
    report_.wrong_results += std::abs(result - of.expected) <= bound ? 0 : 1;
  }
  void run_both(Measured& m) {
    run_on(Device::cpu(), m.on_cpu, m.sides.cpu, m);
    run_on(device_, m.on_device, m.sides.device, m);
  }

  /// Finds the sizes of each case, up to the time limit.
  void find_sizes() {
    const ops::UnrecordedRuns scope;
    for (const OperationCase& one : cases_) {
      bool teaches = true;
      for (const std::uint64_t size : one.sizes) {
        if (Interrupts::came() && !all_.empty()) return;
        Measured& m = all_.emplace_back();
        m.one = &one;
        m.on_cpu = one.make(size);
        m.on_device = one.make(size);
        m.anywhere = one.make(size);
        m.teaches = teaches;
        teaches = !teaches;
        report_.operations.push_back({.name = one.name, .size = size});
        {
          const ops::OnDevice on_cpu(Device::cpu());
          m.expected = m.on_cpu();
        }
        run_both(m);  // uploads kernels and buffers
        m.sides = {};
        run_both(m);
        const Truth first(std::exchange(m.sides, {}));
        if (std::max(first.cpu_us, first.device_us) > most_us()) break;
      }
    }
  }

  /// Trains with every other size, on both backends.
  void teach() {
    for (Measured& m : all_) {
      if (Interrupts::came()) return;
      if (!m.teaches) continue;
      for (int k = 0; k < kRuns; ++k) run_both(m);
      m.sides = {};
    }
  }

  /// Lets the executor decide, with measurements in between.
  void trace() {
    const auto decide = [&] {
      const std::size_t k = random_() % all_.size();
      seen_ = {};
      judge(all_[k], all_[k].anywhere());
      calls_.push_back({k, ops::last_stats().on_cpu, seen_});
    };
    alternate(options_.seconds / 2, all_.size(), random_, decide, [&](std::size_t k) {
      const ops::UnrecordedRuns scope;
      run_both(all_[k]);
    });
  }

  void report() {
    if (calls_.empty()) return;
    std::vector<Truth> truths;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const Truth& truth = truths.emplace_back(all_[k].sides);
      report_.operations[k].cpu_us = truth.cpu_us;
      report_.operations[k].device_us = truth.device_us;
    }
    // An interrupted trace has not measured all of them.
    std::erase_if(calls_, [&](const Call& call) { return truths[call.piece].best_us() == 0; });
    if (calls_.empty()) return;
    std::uint64_t right = 0;
    double over_us = 0, best_us = 0;
    for (const Call& call : calls_) {
      OperationTruth& row = report_.operations[call.piece];
      const Truth& truth = truths[call.piece];
      ++(call.on_cpu ? row.on_cpu : row.on_device);
      all_[call.piece].expected_cpu.push_back(call.seen.cpu_us);
      all_[call.piece].expected_device.push_back(call.seen.device_us);
      report_.operations_explored += call.seen.reason == Reason::explored ? 1 : 0;
      over_us += truth.over_us(call.on_cpu);
      best_us += truth.best_us();
      right += truth.right(call.on_cpu) ? 1 : 0;
      if (truth.right(call.on_cpu)) continue;
      report_.wrong.push_back({.name = row.name,
                               .size = row.size,
                               .call = row.on_cpu + row.on_device - 1,
                               .reason = std::string(name(*call.seen.reason)),
                               .on_device = !call.on_cpu,
                               .cpu_us = truth.cpu_us,
                               .device_us = truth.device_us,
                               .expected_cpu_us = call.seen.cpu_us,
                               .expected_device_us = call.seen.device_us});
    }
    for (std::size_t k = 0; k < all_.size(); ++k) {
      report_.operations[k].expected_cpu_us = median(all_[k].expected_cpu);
      report_.operations[k].expected_device_us = median(all_[k].expected_device);
    }
    const auto calls = static_cast<double>(calls_.size());
    report_.operations_calls = calls_.size();
    report_.operations_right_share = static_cast<double>(right) / calls;
    report_.operations_over_oracle = over_us / best_us;
  }

  const RoutingOptions& options_;
  const Device device_;
  std::mt19937_64& random_;
  RoutingReport& report_;
  const std::vector<OperationCase> cases_ = cases();
  std::vector<Measured> all_;
  std::vector<Call> calls_;
  Seen seen_;
};

}  // namespace

void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report) {
  OperationsCheck(options, device, random, report).run();
}

}  // namespace topograd::check
