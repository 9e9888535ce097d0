// Conjugate gradients on a device stop at the same iterations as the interpreter's, in every step
// of whole solves.
#include <gtest/gtest.h>

#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

class VulkanIterations : public test::VulkanTest {};

using Run = std::function<Summary(const SolverOptions&)>;

template <class Make>
Run solving(const Make& make) {
  return [make](const SolverOptions& options) {
    const auto made = make();
    return solve(made->problem, options);
  };
}

struct IterationRow {
  const char* what;
  Run run;
  Preconditioner preconditioner;
  double linear_tolerance = 1e-5;  // in f32 the last digits of soft modes take iterations
};

std::vector<IterationRow> rows() {
  const Run arap = solving([] { return problems::arap(problems::icosphere(2)); });
  const Run springs = solving([] { return problems::springs(10); });
  const Run bundle = solving([] {
    return problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
  });
  return {{"arap, blocks", arap, Preconditioner::block_jacobi},
          {"arap, blocks, loose", arap, Preconditioner::block_jacobi, 1e-2},
          {"arap, two levels", arap, Preconditioner::two_level},
          {"springs, blocks", springs, Preconditioner::block_jacobi, 1e-2},
          {"springs, two levels", springs, Preconditioner::two_level, 1e-3},
          {"bundle, blocks", bundle, Preconditioner::block_jacobi, 1e-3}};
}

SolverOptions options_of(const IterationRow& row) {
  return {.linear_solver = LinearSolver::pcg,
          .max_iterations = 6,
          .function_tolerance = 1e-9,
          .linear_tolerance = row.linear_tolerance,
          .max_linear_iterations = 1000,
          .preconditioner = row.preconditioner,
          .deterministic = true};
}

/// Expects each step within a tenth, or within three iterations if there are few.
void expect_same_iterations(const Summary& device, const Summary& cpu) {
  EXPECT_EQ(device.backend, "vulkan") << device.why;
  EXPECT_EQ(device.kernels_on_cpu, 0u);
  EXPECT_EQ(cpu.backend, "cpu") << cpu.why;
  EXPECT_EQ(device.preconditioner, cpu.preconditioner);
  ASSERT_EQ(device.iterations.size(), cpu.iterations.size()) << device.message << cpu.message;
  int fewest = 1 << 30, most = 0;
  for (std::size_t k = 1; k < cpu.iterations.size(); ++k) {
    const int want = cpu.iterations[k].linear_iterations;
    EXPECT_NEAR(device.iterations[k].linear_iterations, want, std::max(3.0, 0.1 * want)) << k;
    fewest = std::min(fewest, device.iterations[k].linear_iterations);
    most = std::max(most, device.iterations[k].linear_iterations);
  }
  EXPECT_NEAR(device.num_linear_iterations, cpu.num_linear_iterations,
              0.1 * cpu.num_linear_iterations);
  EXPECT_LT(fewest, most);  // a fixed count would not show that it stops
}

TEST_F(VulkanIterations, OfEveryStepAreTheInterpreters) {
  TG_NEEDS(float64);
  for (const IterationRow& row : rows()) {
    SolverOptions options = options_of(row);
    options.backend = Backend::cpu;
    const Summary cpu = row.run(options);
    options.backend = Backend::vulkan;
    for (const Precision precision : {Precision::f64, Precision::mixed}) {
      SCOPED_TRACE(row.what + (", " + std::string(name(precision))));
      options.precision = precision;
      expect_same_iterations(row.run(options), cpu);
    }
  }
}

/// Steps of conjugate gradients that end by their gain, also on the Schur complement.
TEST_F(VulkanIterations, EndByTheirGainAsTheInterpreters) {
  TG_NEEDS(float64);
  std::vector<IterationRow> all = rows();
  all.push_back({"bundle, eliminated", all.back().run, Preconditioner::block_jacobi});
  for (const IterationRow& row : all) {
    for (const double eta : {0.3, 0.03}) {
      SCOPED_TRACE(row.what + (", eta " + std::to_string(eta)));
      SolverOptions options = options_of(row);
      const bool eliminates = &row == &all.back();
      if (eliminates) options.linear_solver = LinearSolver::schur;
      options.linear_tolerance = 1e-14;
      options.backend = Backend::cpu;
      options.max_iterations = 3;
      const Summary exact = row.run(options);
      options.eta = eta;
      const Summary cpu = row.run(options);
      EXPECT_LT(cpu.num_linear_iterations, exact.num_linear_iterations);
      options.backend = Backend::vulkan;
      const Summary device = row.run(options);
      EXPECT_EQ(device.backend, "vulkan") << device.why;
      if (eliminates) {
        EXPECT_NE(device.linear_solver_note.find("on the device"), std::string::npos);
      }
      ASSERT_EQ(device.iterations.size(), cpu.iterations.size());
      for (std::size_t k = 1; k < cpu.iterations.size(); ++k)
        EXPECT_NEAR(device.iterations[k].linear_iterations, cpu.iterations[k].linear_iterations, 1)
            << k;
    }
  }
}

constexpr Eigen::Index kCamera = 9, kPoint = 3;

/// The inverses of a matrix's diagonal blocks.
Eigen::MatrixXd inverse_blocks(const Eigen::MatrixXd& of, Eigen::Index width) {
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(of.rows(), of.cols());
  for (Eigen::Index k = 0; k < of.rows(); k += width)
    out.block(k, k, width, width) = of.block(k, k, width, width).inverse();
  return out;
}

/// Textbook conjugate gradients, preconditioned by the diagonal blocks of cameras.
int iterations_of(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right, double tolerance) {
  const Eigen::MatrixXd inverse = inverse_blocks(matrix, kCamera);
  Eigen::VectorXd r = right, z = inverse * r, p = z;
  int iterations = 0;
  while (r.norm() > tolerance * right.norm() && iterations < 1000) {
    const Eigen::VectorXd q = matrix * p;
    const double rz = r.dot(z), alpha = rz / p.dot(q);
    r -= alpha * q;
    z = inverse * r;
    p = z + r.dot(z) / rz * p;
    ++iterations;
  }
  return iterations;
}

/// Iterations of a step of the bundle at its present point, with eliminated points.
int iterations_of_step(Problem& problem, double radius, Eigen::VectorXd& scale, double tolerance) {
  Evaluator at(problem, {.backend = Backend::cpu});
  Eigen::MatrixXd A = at.jtj();
  const Eigen::VectorXd g = at.gradient(), diagonal = A.diagonal();
  if (scale.size() == 0) scale = (1 + diagonal.array().sqrt()).inverse();
  const SolverOptions defaults;
  const Eigen::ArrayXd squared = scale.array().square();
  A.diagonal().array() +=
      (squared * diagonal.array()).max(defaults.min_lm_diagonal).min(defaults.max_lm_diagonal) /
      squared / radius;
  const Eigen::Index n = A.rows() - 180, m = 180;  // 60 points
  const Eigen::MatrixXd E = A.topRightCorner(n, m),
                        C = inverse_blocks(A.bottomRightCorner(m, m), kPoint);
  return iterations_of(A.topLeftCorner(n, n) - E * C * E.transpose(),
                       -g.head(n) + E * C * g.tail(m), tolerance);
}

// The interpreter factorises Schur complements, so a textbook version is the reference.
TEST_F(VulkanIterations, OnASchurComplementAreTheTextbooks) {
  TG_NEEDS(float64);
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    SCOPED_TRACE(std::string(name(precision)));
    const auto bundle =
        problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
    SolverOptions options = {.backend = Backend::vulkan,
                             .precision = precision,
                             .linear_solver = LinearSolver::schur,
                             .max_iterations = 6,
                             .function_tolerance = 1e-9,
                             .linear_tolerance = 1e-3,
                             .deterministic = true,
                             .update_state_every_iteration = true};
    Eigen::VectorXd scale;
    std::vector<int> want;
    options.callback = [&](const IterationSummary& i) {
      want.push_back(iterations_of_step(bundle->problem, i.trust_region_radius, scale, 1e-3));
      return CallbackReturn::SOLVER_CONTINUE;
    };
    const Summary summary = solve(bundle->problem, options);
    EXPECT_NE(summary.linear_solver_note.find("on the device"), std::string::npos);
    ASSERT_GE(summary.iterations.size(), 4u);
    for (std::size_t k = 1; k < summary.iterations.size(); ++k)
      EXPECT_NEAR(summary.iterations[k].linear_iterations, want[k - 1],
                  std::max(2.0, 0.1 * want[k - 1]))
          << k;
  }
}

/// Thirty waves of two numbers; each pair of neighbours shares 150 residuals.
Summary fit_waves(SolverOptions options, NormalMatrix matrix) {
  constexpr std::size_t kWaves = 30, kSamples = 150;
  std::vector<double> numbers(2 * kWaves);
  for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = 0.4 + 0.3 * std::sin(1.0 * k);
  Problem problem;
  const Parameters waves = problem.add_parameters(numbers, 2);
  for (std::size_t w = 0; w + 1 < kWaves; ++w) {
    for (std::size_t i = 0; i < kSamples; ++i) {
      const double t = 0.02 * static_cast<double>(i);
      const auto wave = [&](std::size_t k) {
        const Vec2 a = waves.vec2(k);
        return sin(a.x + t * a.y) * exp(-0.1 * t * a.y) + cos(t * a.x) * sqrt(1 + a.y * a.y);
      };
      problem.add_residual(wave(w) * wave(w + 1) - std::sin(t + 0.1 * static_cast<double>(w)));
    }
  }
  options.linear_solver = LinearSolver::pcg;
  options.normal_matrix = matrix;
  return solve(problem, options);
}

TEST_F(VulkanIterations, BlocksServeWhereManyResidualsShareThem) {
  TG_NEEDS(float64);
  const SolverOptions options = {.backend = Backend::vulkan,
                                 .max_iterations = 12,
                                 .linear_tolerance = 1e-10,
                                 .preconditioner = Preconditioner::block_jacobi};
  const Summary free = fit_waves(options, NormalMatrix::matrix_free);
  const Summary chosen = fit_waves(options, NormalMatrix::automatic);
  EXPECT_EQ(free.normal_matrix, NormalMatrix::matrix_free);
  EXPECT_EQ(chosen.normal_matrix, NormalMatrix::assembled) << chosen.normal_matrix_note;
  EXPECT_EQ(chosen.normal_matrix_note.find("88 blocks"), 0u) << chosen.normal_matrix_note;
  EXPECT_NE(chosen.full_report().find("Normal matrix"), std::string::npos);
  EXPECT_EQ(chosen.plan.product, "assembled");
  EXPECT_NEAR(chosen.final_cost, free.final_cost, 1e-6 * free.final_cost);
  EXPECT_NEAR(chosen.num_linear_iterations, free.num_linear_iterations,
              0.1 * free.num_linear_iterations);
}

}  // namespace
}  // namespace topograd
