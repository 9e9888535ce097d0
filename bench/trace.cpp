// How many residuals a second are traced, matched and stored, on one thread?
#include "problems/springs.hpp"

#include <topograd/frontend/math.hpp>
#include <topograd/frontend/problem.hpp>

#include <benchmark/benchmark.h>

#include <vector>

namespace {

using namespace topograd;

/// Springs of a grid through plain values; argument: vertices along a side.
void plain_values(benchmark::State& state) {
  const auto width = static_cast<std::uint32_t>(state.range(0));
  std::size_t residuals = 0, bytes = 0;
  for (auto _ : state) {
    const auto springs = problems::springs(width);
    residuals = springs->problem.residual_block_count();
    bytes = springs->problem.bytes();
  }
  state.counters["residuals/s"] =
      benchmark::Counter(static_cast<double>(residuals) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["bytes/residual"] = static_cast<double>(bytes) / static_cast<double>(residuals);
}
BENCHMARK(plain_values)->Arg(100)->Arg(300)->Arg(1000)->Unit(benchmark::kMillisecond);

/// The same edges through the map front door: one trace, columns filled by rows.
void map(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<double> positions(3 * (n + 1), 0.5), rest(n, 1.0);
  std::vector<std::uint32_t> ends;
  for (std::uint32_t k = 0; k < n; ++k) ends.insert(ends.end(), {k, k + 1});
  for (auto _ : state) {
    Problem problem;
    const Parameters x = problem.add_parameters(positions, 3);
    problem.add_residuals(n,
                          [&](Element e) { return norm(e.vec3(x, 0) - e.vec3(x, 1)) - e.data(0); },
                          {.indices = ends, .data = rest});
    benchmark::DoNotOptimize(problem.residual_block_count());
  }
  state.counters["residuals/s"] =
      benchmark::Counter(static_cast<double>(n) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(map)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);

}  // namespace
