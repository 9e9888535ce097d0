// Conjugate gradients from generated kernels, against a dense solve of the same normal equations.
#include "../../autodiff/derivatives.hpp"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "kernel_requests.hpp"
#include "kernel_runner.hpp"
#include "spring_set.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::generate;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::SolverState;
using codegen::VectorConstants;
using codegen::VectorOp;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Normal equations of springs, on the host.
struct Normal {
  MatrixXd hessian;
  VectorXd gradient;

  explicit Normal(const SpringSet& set) {
    const auto n = static_cast<Eigen::Index>(set.x.size());
    hessian = MatrixXd::Zero(n, n);
    gradient = VectorXd::Zero(n);
    const ir::Program rows =
        autodiff::residual_and_jacobian(springs(), autodiff::all_slots(springs()));
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const std::vector<double> values = set.evaluate(rows, i);
      for (std::uint32_t k = 0; k < 6; ++k) {
        gradient[index(set, i, k)] += values[k + 1] * values[0];
        for (std::uint32_t l = 0; l < 6; ++l) {
          hessian(index(set, i, k), index(set, i, l)) += values[k + 1] * values[l + 1];
        }
      }
    }
  }

  static Eigen::Index index(const SpringSet& set, std::uint32_t i, std::uint32_t k) {
    return (k < 3 ? set.a[i] : set.b[i] - 3) + k;
  }
};

struct Options {
  Precision vectors = Precision::f64, scalars = Precision::f64;
  bool masked = false;
  double lambda = 0.1, tolerance = 1e-9;
  int max_iterations = 200;
  bool fused = false;
  bool preconditioned = true;
  bool fused_terms = false;  ///< fused: some of the springs are fused terms of another batch
};

struct Outcome {
  VectorXd step;
  SolverState state;
  int iterations;
  double model_decrease, step_squared;
};

class ConjugateGradients : public KernelDeviceTest {
 protected:
  static constexpr std::uint32_t kGroups = 3;

  static std::uint32_t first_fused_term(const SpringSet& set) { return set.count - set.count / 10; }

  /// D of the damping λ D.
  static VectorXd diagonal(const Normal& normal) {
    return normal.hessian.diagonal().cwiseMax(1e-6).cwiseMin(1e32);
  }

  void fill(KernelRunner& runner, const SpringSet& set, const Normal& normal, const Options& o) {
    if (o.fused_terms) {
      set.set_entries_and_fused_terms(runner, o.vectors, first_fused_term(set));
    } else {
      set.set_entries(runner, o.vectors);
    }
    const std::size_t n = set.x.size();
    std::vector<double> packed;
    std::vector<std::uint32_t> fixed(n);
    for (std::uint32_t v = 0; v < set.vertices; ++v) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        fixed[3 * v + i] = v % 4 == 0 || (v + i) % 11 == 0 ? 1 : 0;
        for (std::uint32_t j = i; j < 3; ++j)
          packed.push_back(normal.hessian(3 * v + i, 3 * v + j));
      }
    }
    runner.set(BufferRole::blocks, o.vectors, packed);
    runner.set(BufferRole::inverse_blocks, o.vectors, packed);
    runner.set(BufferRole::fixed_scalars, fixed);
    runner.set(BufferRole::gradient, o.vectors,
               {normal.gradient.data(), static_cast<std::size_t>(normal.gradient.size())});
    runner.set(BufferRole::scale, o.vectors, std::vector<double>(n, 1));
    for (const BufferRole role :
         {BufferRole::damping, BufferRole::delta, BufferRole::residual, BufferRole::direction,
          BufferRole::next_direction, BufferRole::preconditioned, BufferRole::product,
          BufferRole::result}) {
      runner.set(role, o.vectors, std::vector<double>(n));
    }
    if (!o.preconditioned) runner.set_alias(BufferRole::preconditioned, BufferRole::residual);
    runner.set(BufferRole::first_operand, o.vectors, set.x);
    runner.set(BufferRole::partials, o.scalars, std::vector<double>(2 * kGroups));
    runner.set(BufferRole::curvature, o.scalars, std::vector<double>(kGroups));
    runner.set(BufferRole::decision, o.scalars, std::vector<double>(codegen::kScalarCount));
    auto scalars = codegen::initial_scalars();
    scalars[slot(Scalar::lambda)] = o.lambda;
    scalars[slot(Scalar::min_diagonal)] = 1e-6;
    scalars[slot(Scalar::max_diagonal)] = 1e32;
    scalars[slot(Scalar::tolerance)] = o.tolerance;
    scalars[slot(Scalar::max_iterations)] = o.max_iterations;
    runner.set(BufferRole::scalars, o.scalars, scalars);
  }

  /// Records like an engine: iterations after the end change nothing.
  Outcome solve(const SpringSet& set, const Normal& normal, const Options& o) {
    KernelRunner runner(device_);
    fill(runner, set, normal, o);
    const auto n = static_cast<std::uint32_t>(set.x.size());
    codegen::StepTime step_time = codegen::StepTime::now;
    const auto run = [&](VectorOp op, std::uint32_t count, std::uint32_t groups) {
      runner.run_vector({.op = op,
                         .vectors = o.vectors,
                         .scalars = o.scalars,
                         .width = 3,
                         .unpreconditioned = !o.preconditioned,
                         .step_time = step_time},
                        {.count = count,
                         .out_stride = kGroups,
                         .masked = o.masked ? 1u : 0u,
                         .sums_count = kGroups,
                         .sums_stride = kGroups},
                        groups);
    };
    const auto make_pending_step = [&] {
      runner.set_alias(BufferRole::first_operand, BufferRole::next_direction);
      runner.set_alias(BufferRole::result, BufferRole::delta);
      runner.run_vector({.op = VectorOp::axpby, .vectors = o.vectors, .scalars = o.scalars},
                        {.count = n, .a = slot(Scalar::pending), .b = slot(Scalar::one)}, kGroups);
    };
    codegen::KernelRequest product = springs_jtjp_gather(o.vectors);
    product.fusion = o.fused ? codegen::Fusion::decides : codegen::Fusion::none;
    product.scalars = o.scalars;
    if (o.fused_terms) {
      for (const codegen::GatherSlot& block_slot : std::vector(product.block_slots)) {
        product.block_slots.push_back(block_slot);
        product.block_slots.back().is_fused = true;
      }
    }
    const std::uint32_t hosts = o.fused_terms ? first_fused_term(set) : set.count;
    run(VectorOp::precondition, set.vertices, kGroups);
    run(VectorOp::cg_init, set.vertices, kGroups);
    run(VectorOp::cg_start, kGroups, 1);
    for (int k = 0; k < o.max_iterations + 5; ++k) {
      runner.set_alias(BufferRole::results, BufferRole::product);
      if (!o.fused) run(VectorOp::cg_direction, n, kGroups);
      runner.run(generate(product),
                 {.count = set.vertices,
                  .stride = 2 * hosts,
                  .overwrite = 1,
                  .sums_count = kGroups,
                  .sums_stride = kGroups,
                  .fused_stride = 2 * (set.count - hosts)},
                 o.fused ? kGroups : groups_of(set.vertices, 128));
      if (o.fused) {
        runner.swap(BufferRole::direction, BufferRole::next_direction);
      } else {
        run(VectorOp::cg_curvature, n, kGroups);
      }
      // Lists of four iterations; at the start of a list directions have the initial order.
      if (o.fused) step_time = k % 2 == 0 ? codegen::StepTime::later : codegen::StepTime::both;
      run(VectorOp::cg_update, set.vertices, kGroups);
      if (o.fused && k % 4 != 3) continue;
      if (o.fused) make_pending_step();
      run(VectorOp::cg_finish, kGroups, 1);
      if (k % 16 == 15 && runner.numbers(BufferRole::scalars, o.scalars)[0] != 0) break;
    }
    runner.set(BufferRole::first_operand, o.vectors, set.x);
    runner.set(BufferRole::result, o.vectors, std::vector<double>(n));
    run(VectorOp::trial_point, n, kGroups);
    runner.run_vector({.op = VectorOp::sum_partials, .vectors = o.vectors, .scalars = o.scalars},
                      {.count = kGroups, .out_stride = kGroups, .a = slot(Scalar::model_decrease)},
                      2);
    const std::vector<double> step = runner.numbers(BufferRole::delta, o.vectors);
    const std::vector<double> trial = runner.numbers(BufferRole::result, o.vectors);
    for (std::uint32_t i = 0; i < n; ++i) EXPECT_NEAR(trial[i], set.x[i] + step[i], 1e-6);
    const std::vector<double> scalars = runner.numbers(BufferRole::scalars, o.scalars);
    return {.step = Eigen::Map<const VectorXd>(step.data(), n),
            .state = static_cast<SolverState>(scalars[slot(Scalar::state)]),
            .iterations = static_cast<int>(scalars[slot(Scalar::iterations)]),
            .model_decrease = scalars[slot(Scalar::model_decrease)],
            .step_squared = scalars[slot(Scalar::step_squared)]};
  }

  std::vector<Options> options() const {
    std::vector<Options> out;
    for (int k = 0; k < 16; ++k) {
      const bool masked = (k & 1) != 0, fused = (k & 2) != 0, preconditioned = (k & 4) == 0;
      const bool fused_terms = (k & 8) != 0;
      if (fused_terms && !fused) continue;
      const auto add = [&](Precision vectors, Precision scalars, double tolerance) {
        out.push_back({.vectors = vectors,
                       .scalars = scalars,
                       .masked = masked,
                       .tolerance = tolerance,
                       .fused = fused,
                       .preconditioned = preconditioned,
                       .fused_terms = fused_terms});
      };
      add(Precision::f32, Precision::f32, 1e-5);
      if (!device_->features().float64) continue;
      add(Precision::f32, Precision::f64, 1e-5);
      add(Precision::f64, Precision::f64, 1e-9);
    }
    return out;
  }
};

TEST_F(ConjugateGradients, AgreeWithADenseSolve) {
  for (const Options& o : options()) {
    const SpringSet set(200, o.vectors);
    const Normal normal(set);
    MatrixXd damped = normal.hessian;
    damped.diagonal() += o.lambda * diagonal(normal);
    VectorXd right = -normal.gradient;
    for (Eigen::Index i = 0; o.masked && i < right.size(); ++i) {
      if (!((i / 3) % 4 == 0 || (i / 3 + i % 3) % 11 == 0)) continue;
      damped.row(i).setZero();
      damped.col(i).setZero();
      damped(i, i) = 1;
      right[i] = 0;
    }
    const VectorXd want = damped.ldlt().solve(right);
    const Outcome got = solve(set, normal, o);
    const double close = o.vectors == Precision::f32 ? 1e-3 : 1e-7;
    EXPECT_EQ(got.state, SolverState::converged);
    EXPECT_GT(got.iterations, 3);
    EXPECT_LT((got.step - want).norm(), close * want.norm())
        << "masked " << o.masked << ", fused " << o.fused << ", preconditioned " << o.preconditioned
        << ", fused_terms " << o.fused_terms;
    const double decrease = -normal.gradient.dot(want) - 0.5 * want.dot(normal.hessian * want);
    EXPECT_NEAR(got.model_decrease / decrease, 1, close);
    EXPECT_NEAR(got.step_squared / want.squaredNorm(), 1, close);
  }
}

TEST_F(ConjugateGradients, StopWhereTheyMust) {
  struct Row {
    const char* what;
    double lambda, gradient;
    int max_iterations;
    SolverState state;
    int iterations;
  };
  const SpringSet set(100, Precision::f32);
  for (const Row& row : {Row{"limit", 1e-3, 1, 3, SolverState::limit, 3},
                         Row{"zero gradient", 1e-3, 0, 50, SolverState::converged, 0},
                         Row{"negative curvature", -50, 1, 50, SolverState::breakdown, 0},
                         Row{"no number", 1e-3, std::numeric_limits<double>::quiet_NaN(), 50,
                             SolverState::breakdown, 0}}) {
    Normal normal(set);
    normal.gradient *= row.gradient;
    for (const bool fused : {false, true}) {
      const Outcome got = solve(
          set, normal,
          {Precision::f32, Precision::f32, false, row.lambda, 1e-5, row.max_iterations, fused});
      EXPECT_EQ(got.state, row.state) << row.what << ", fused " << fused;
      EXPECT_EQ(got.iterations, row.iterations) << row.what << ", fused " << fused;
    }
  }
}

}  // namespace
}  // namespace topograd::test
