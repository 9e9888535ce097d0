// Learns how stiff the parts of a sheet are from the shape that it takes: L-BFGS over weights,
// whose gradient is the derivative of a loss through the solve of the shape.
#include <topograd/solver/minimize_function.hpp>
#include <topograd/topograd.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace tg = topograd;

namespace {

constexpr std::uint32_t kLength = 13, kWidth = 4, kBands = 4;

// A sheet that is as rigid as possible, held at one end and moved at the other. Its bands have
// weights of their own.
struct Sheet {
  Sheet() {
    std::vector<double> rest;
    for (std::uint32_t i = 0; i < kLength; ++i)
      for (std::uint32_t j = 0; j < kWidth; ++j)
        rest.insert(rest.end(), {double(i), double(j), 0.1 * std::sin(0.7 * i)});
    positions = rest;
    rotations.assign(rest.size(), 0);
    p = problem.add_parameters(positions, 3, "positions");
    const tg::Parameters a = problem.add_parameters(rotations, 3, "rotations");
    weights = problem.add_data(std::vector<double>(kBands, 1.0), 1, "weights");

    std::vector<std::uint32_t> indices;
    std::vector<double> edges;
    const auto add = [&](std::uint32_t from, std::uint32_t to) {
      for (const auto& [i, j] : {std::pair(from, to), std::pair(to, from)}) {
        indices.insert(indices.end(), {i, j, std::min(i, j) / kWidth * kBands / kLength});
        for (int k = 0; k < 3; ++k) edges.push_back(rest[3 * i + k] - rest[3 * j + k]);
      }
    };
    for (std::uint32_t i = 0; i < kLength; ++i) {
      for (std::uint32_t j = 0; j < kWidth; ++j) {
        const std::uint32_t v = i * kWidth + j;
        if (i + 1 < kLength) add(v, v + kWidth);
        if (j + 1 < kWidth) add(v, v + 1);
        if (i + 1 < kLength && j + 1 < kWidth) add(v, v + kWidth + 1);
      }
    }
    const tg::Parameters x = p;
    const tg::Data w = weights;
    problem.add_residuals(indices.size() / 3,
                          [=](tg::Element e) {
                            const tg::Vec3 turned = rotate(e.vec3(a, 0), e.data_vec3(0));
                            return sqrt(w[e.index(2)]) * (e.vec3(x, 0) - e.vec3(x, 1) - turned);
                          },
                          {.indices = indices, .data = edges});
    for (std::uint32_t j = 0; j < kWidth; ++j) {
      const std::uint32_t last = (kLength - 1) * kWidth + j;
      positions[3 * last] -= 3;
      positions[3 * last + 2] += 2 + 0.5 * j;
      problem.set_constant(p, j);
      problem.set_constant(p, last);
    }
    start = positions;
  }

  void solve(const std::vector<double>& of_bands) {
    problem.set(weights, of_bands);
    positions = start;
    rotations.assign(rotations.size(), 0);
    tg::solve(problem, {.backend = tg::Backend::cpu,
                        .linear_solver = tg::LinearSolver::cholesky,
                        .max_iterations = 300,
                        .function_tolerance = 1e-16,
                        .gradient_tolerance = 1e-12,
                        .parameter_tolerance = 1e-12});
  }

  std::vector<double> positions, rotations, start;
  tg::Problem problem;
  tg::Parameters p;
  tg::Data weights;
};

}  // namespace

int main() {
  // The shape that the right weights give; weights matter up to a factor, so the first one is 1.
  const std::vector<double> right = {1, 0.2, 4, 0.7};
  Sheet sheet;
  sheet.solve(right);
  const std::vector<double> target = sheet.positions;

  int solves = 0;
  const auto weights_of = [](std::span<const double> logarithms) {
    std::vector<double> weights = {1};
    for (const double l : logarithms) weights.push_back(std::exp(l));
    return weights;
  };
  const tg::Objective loss{
      .size = kBands - 1,
      .evaluate = [&](std::span<const double> logarithms, std::span<double> gradient) {
        const std::vector<double> weights = weights_of(logarithms);
        sheet.solve(weights);
        ++solves;
        double value = 0;
        std::vector<double> by_x(sheet.problem.parameter_count(), 0);  // of the loss, by x*
        for (std::size_t k = 0; k < target.size(); ++k) {
          const double difference = sheet.positions[k] - target[k];
          value += difference * difference / 2;
          by_x[sheet.p.offset() + k] = difference;
        }
        if (gradient.empty()) return value;
        const tg::Sensitivity sensitivity(sheet.problem);
        const Eigen::VectorXd by_weights = sensitivity.vjp(sheet.weights, by_x);
        for (std::size_t k = 0; k < gradient.size(); ++k)
          gradient[k] = by_weights[static_cast<Eigen::Index>(k) + 1] * weights[k + 1];
        return value;
      }};

  std::vector<double> logarithms(kBands - 1, 0);
  tg::Summary summary;
  tg::minimize_lbfgs(
      loss, logarithms,
      {.max_iterations = 60, .function_tolerance = 1e-14, .gradient_tolerance = 1e-9}, summary);
  const std::vector<double> found = weights_of(logarithms);
  double worst = 0;
  for (std::size_t k = 0; k < kBands; ++k) {
    std::printf("band %zu: weight %.6f, learned %.6f\n", k, right[k], found[k]);
    worst = std::max(worst, std::abs(found[k] / right[k] - 1));
  }
  std::printf("loss %.3e -> %.3e, %d solves\n", summary.initial_cost, summary.final_cost, solves);
  return worst < 1e-4 ? 0 : 1;
}
