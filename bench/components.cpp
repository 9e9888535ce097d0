// Many small problems on the CPU and on a device: peaks of 5 unknowns in images of 25 pixels,
// chains of any number of unknowns, and trajectories of three.
//
//   bench_components [peaks COUNT | chains UNKNOWNS COUNT | trajectories STEPS COUNT]
//
// Prints for each backend and precision: the time of a solve that runs again, with the kernels'
// part of it, how many converged, the largest difference from the CPU's unknowns, and the errors of
// peaks. scripts/bench-peaks-peer fits the same peaks by a plain CUDA kernel.
#include "../frontend/value/math.hpp"
#include "../solver/solve_many.hpp"
#include "../tools/problems/chains.hpp"
#include "peaks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::bench {
namespace {

struct Many {
  std::string name;
  std::size_t unknowns = 0, count = 0, entries = 0;
  std::vector<double> starts, data;
  std::vector<double> truth = {};  // of peaks
  std::function<std::vector<Value>(const One&)> f;
};

Many peaks(std::size_t count) {
  PeakImages made = make_peaks(count);
  Many out{.name = "peaks",
           .unknowns = kPeakUnknowns,
           .count = count,
           .entries = kPixels,
           .starts = std::move(made.starts),
           .data = std::move(made.pixels),
           .truth = std::move(made.truth)};
  out.f = [](const One& one) {
    std::vector<Value> rows;
    for (std::size_t i = 0; i < kPixels; ++i) {
      const Value square = topograd::square(one.x(1) - double(i % kPeakSide)) +
                           topograd::square(one.x(2) - double(i / kPeakSide));
      rows.push_back(one.x(0) * exp(-square / (2.0 * topograd::square(one.x(3)))) + one.x(4) -
                     one.data(0, i));
    }
    return rows;
  };
  return out;
}

Many chains(std::size_t unknowns, std::size_t count) {
  problems::Chains made = problems::make_chains(count, unknowns);
  return {.name = "chains",
          .unknowns = unknowns,
          .count = count,
          .entries = problems::chain_entries(unknowns),
          .starts = std::move(made.starts),
          .data = std::move(made.data),
          .f = problems::chain_rows};
}

/// y' = a − b y + c y², by Euler's steps of 0.005; a, b and c are fitted to the states, with noise.
Many trajectories(std::size_t steps, std::size_t count) {
  constexpr double kStep = 0.005, kFirst = 0.3, kNoise = 0.01;
  Many out{
      .name = std::to_string(steps) + " steps", .unknowns = 3, .count = count, .entries = steps};
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (std::size_t k = 0; k < count; ++k) {
    const double a = 1 + 0.1 * normal(random), b = 0.8 + 0.08 * normal(random),
                 c = -0.1 + 0.01 * normal(random);
    double y = kFirst;
    for (std::size_t i = 0; i < steps; ++i) {
      y += kStep * (a - b * y + c * y * y);
      out.data.push_back(y + kNoise * normal(random));
    }
    out.starts.insert(out.starts.end(), {0.8, 0.6, 0.0});
  }
  out.f = [=](const One& one) {
    std::vector<Value> rows;
    Value y = literal(kFirst);
    for (std::size_t i = 0; i < steps; ++i) {
      y = y + kStep * (one.x(0) - one.x(1) * y + one.x(2) * y * y);
      rows.push_back(y - one.data(0, i));
    }
    return rows;
  };
  return out;
}

struct Way {
  const char* name;
  Backend backend;
  Precision precision = Precision::f64;
  bool checks = true;
};
constexpr Way kWays[] = {
    {"CPU", Backend::cpu},
    {"device, f64", Backend::vulkan},
    {"device, mixed", Backend::vulkan, Precision::mixed},
    {"device, mixed, its own verdicts", Backend::vulkan, Precision::mixed, false},
    {"automatic, f64", Backend::automatic},
    {"automatic, mixed", Backend::automatic, Precision::mixed},
};

void compare(const Many& many) {
  std::printf("%zu %s of %zu unknowns, %zu numbers of data each\n", many.count, many.name.c_str(),
              many.unknowns, many.entries);
  std::vector<double> of_cpu;
  for (const Way& way : kWays) {
    SolverOptions options{.backend = way.backend, .precision = way.precision};
    options.components = Components::separate;
    const std::span<const double> data[] = {many.data};
    double least = HUGE_VAL;
    std::vector<double> x;
    Summary summary;
    try {
      ManySolver solver(many.unknowns, {many.entries}, many.f, {.checks_ends = way.checks},
                        options);
      for (int repeat = 0; repeat < 4; ++repeat) {
        x = many.starts;
        const auto begin = std::chrono::steady_clock::now();
        summary = solver.solve(x, data);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (repeat > 0) least = std::min(least, seconds);
      }
    } catch (const std::exception& error) {
      std::printf("  %-32s %s\n", way.name, error.what());
      continue;
    }
    if (way.backend == Backend::cpu) of_cpu = x;
    double difference = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      difference = std::max(difference, std::abs(x[i] - of_cpu[i]) / (1 + std::abs(of_cpu[i])));
    const auto converged =
        std::ranges::count(summary.components.termination, Termination::CONVERGENCE);
    std::printf("  %-32s %10.2f ms  %zd converged  difference %.1e\n    %s\n", way.name,
                1e3 * least, static_cast<std::ptrdiff_t>(converged), difference,
                summary.why.c_str());
    if (!many.truth.empty()) {
      const auto [amplitude, cx, cy, width, background] = median_errors(x, many.truth);
      std::printf(
          "    %.2f steps each; median errors: amplitude %.4g, centre %.4g and %.4g, width %.4g, "
          "background %.4g\n",
          double(summary.num_successful_steps + summary.num_unsuccessful_steps) /
              static_cast<double>(many.count),
          amplitude, cx, cy, width, background);
    }
    std::fflush(stdout);
  }
}

std::size_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

}  // namespace
}  // namespace topograd::bench

int main(int argc, char** argv) {
  using namespace topograd::bench;
  if (argc == 3 && std::strcmp(argv[1], "peaks") == 0) {
    compare(peaks(number(argv[2])));
  } else if (argc == 4 && std::strcmp(argv[1], "chains") == 0) {
    compare(chains(number(argv[2]), number(argv[3])));
  } else if (argc == 4 && std::strcmp(argv[1], "trajectories") == 0) {
    compare(trajectories(number(argv[2]), number(argv[3])));
  } else if (argc == 1) {
    compare(peaks(100'000));
    for (const std::size_t unknowns : {16, 17, 32, 64}) compare(chains(unknowns, 10'000));
  } else {
    std::fprintf(stderr,
                 "usage: bench_components [peaks COUNT | chains UNKNOWNS COUNT |\n"
                 "trajectories STEPS COUNT]\n");
    return 2;
  }
}
