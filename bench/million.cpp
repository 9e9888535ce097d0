// bench_million [REPEATS]: solves two problems of a million residuals, and prints seconds;
// bench/million.py is the same in Python.
#include "../api/topograd.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::size_t kRows = 1'000'000;

/// A million points of a curve, and three unknowns.
tg::Summary curve(const tg::SolverOptions& options, std::vector<double>& x) {
  std::vector<double> data(2 * kRows);
  for (std::size_t k = 0; k < kRows; ++k) {
    const double t = 4.0 * static_cast<double>(k) / kRows;
    data[2 * k] = t;
    data[2 * k + 1] = 2.5 * std::exp(-1.3 * t) + 0.5 + 0.02 * std::sin(1000 * t);
  }
  x = {1, 1, 0};
  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x);
  problem.add_residuals(
      kRows, [&](tg::Element e) { return p[0] * exp(-p[1] * e.data(0)) + p[2] - e.data(1); },
      {.data = data});
  return solve(problem, options);
}

/// A signal of half a million unknowns: its distance to measurements, and saturating differences.
tg::Summary signal(const tg::SolverOptions& options, std::vector<double>& x) {
  const std::size_t n = kRows / 2;
  std::vector<double> measured(n);
  std::vector<std::uint32_t> own(n), next(2 * (n - 1));
  for (std::size_t k = 0; k < n; ++k) {
    const auto at = static_cast<double>(k);
    measured[k] = std::sin(1e-4 * at) + 0.3 * std::sin(7 * at);
    own[k] = static_cast<std::uint32_t>(k);
    if (k + 1 < n) next[2 * k] = own[k], next[2 * k + 1] = own[k] + 1;
  }
  x = measured;
  tg::Problem problem;
  const tg::Parameters p = problem.add_parameters(x);
  problem.add_residuals(n, [&](tg::Element e) { return p[e.index(0)] - e.data(0); },
                        {.indices = own, .data = measured});
  problem.add_residuals(n - 1,
                        [&](tg::Element e) { return 2.0 * tanh(p[e.index(1)] - p[e.index(0)]); },
                        {.indices = next});
  return solve(problem, options);
}

void run(const char* name, tg::Summary (*problem)(const tg::SolverOptions&, std::vector<double>&),
         int repeats) {
  tg::SolverOptions options;
  options.backend = tg::Backend::cpu;
  options.threads = 2;
  options.function_tolerance = 1e-8;
  options.parameter_tolerance = 1e-8;
  options.gradient_tolerance = 1e-8;
  options.scale_free = false;
  for (int k = 0; k < repeats; ++k) {
    std::vector<double> x;
    const auto begin = std::chrono::steady_clock::now();
    const tg::Summary summary = problem(options, x);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%s: %.3f s, %d steps, cost %.9g\n", name, seconds.count(),
                summary.num_iterations(), summary.final_cost);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 5;
  run("curve", curve, repeats);
  run("signal", signal, repeats);
}
