// Evaluation of problems row by row, and the grid of springs.
#include "reference.hpp"

#include <gtest/gtest.h>
#include "../../ir/evaluate.hpp"

#include <cmath>
#include <vector>

namespace topograd::test {

std::vector<double> residuals(const Problem& problem) {
  std::vector<double> x(problem.parameter_count());
  problem.read_x(x);
  std::vector<double> rows(problem.residual_count(), std::nan(""));
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (problem.is_energy(t)) continue;
    const ir::Batch& batch = problem.batch(t);
    std::vector<double> parameters(batch.parameter_columns()), uniforms(batch.uniform_columns()),
        data(batch.data_columns());
    for (std::size_t k = 0; k < batch.size(); ++k) {
      for (std::uint32_t c = 0; c < parameters.size(); ++c) parameters[c] = x[batch.index(k, c)];
      for (std::uint32_t c = 0; c < uniforms.size(); ++c)
        uniforms[c] =
            problem.uniforms()[batch.index(k, static_cast<std::uint32_t>(parameters.size()) + c)];
      for (std::uint32_t c = 0; c < data.size(); ++c) data[c] = batch.data(k, c);
      const std::vector<double> values =
          ir::evaluate<double>(problem.topology(t).program, {.parameters = parameters,
                                                             .data = data,
                                                             .uniforms = uniforms,
                                                             .tangents = {},
                                                             .seeds = {}});
      for (std::size_t r = 0; r < values.size(); ++r) rows[batch.residual_row(k) + r] = values[r];
    }
  }
  for (const HostBlock& block : problem.host_blocks()) {
    std::vector<const double*> blocks;
    for (const std::uint32_t offset : block.offsets) blocks.push_back(x.data() + offset);
    EXPECT_TRUE(block.function->evaluate(blocks.data(), rows.data() + block.row, nullptr));
  }
  return rows;
}

double cost(const Problem& problem) {
  long double sum = 0;
  for (const double r : residuals(problem)) sum += static_cast<long double>(r) * r;
  return static_cast<double>(sum / 2);
}

Springs::Springs(int width) {
  const auto w = static_cast<std::uint32_t>(width);
  for (std::uint32_t k = 0; k < w * w; ++k) {
    const std::uint32_t i = k % w, j = k / w;
    positions.insert(positions.end(),
                     {i + 0.1 * std::sin(k), j + 0.1 * std::cos(3.0 * k), 0.1 * std::sin(7.0 * k)});
    if (i + 1 < w) edges.push_back({k, k + 1, 1.0});
    if (j + 1 < w) edges.push_back({k, k + w, 1.0});
    if (i + 1 < w && j + 1 < w) edges.push_back({k, k + w + 1, std::sqrt(2.0)});
  }
  for (const std::uint32_t k : {0u, w - 1, w * (w - 1), w * w - 1})
    anchors.push_back({k, {1.1 * (k % w), 1.1 * (k / w), 0.0}});
}

}  // namespace topograd::test
