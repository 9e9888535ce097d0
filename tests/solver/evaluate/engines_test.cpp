// Engines that wrap engines: passed-on abilities, and their own.
#include "../../../solver/session/retrace.hpp"
#include "../../../solver/session/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "branch_problems.hpp"

namespace topograd {
namespace {

using runtime::Engine;
using runtime::Pass;

std::uint64_t host_bytes(Engine& engine) {
  std::uint64_t total = 0;
  for (const runtime::MemoryUse& use : engine.abilities().measurements->memory()) total += use.host;
  return total;
}

/// Springs without branches, and sessions for them.
struct Springs : test::SidedSprings {
  explicit Springs(test::Written written = test::Written::by_select)
      : SidedSprings(2000, 0.1, written), model(make_model("test", problem)) {}
  Session open(Precision precision) {
    options.precision = precision;
    Session session = open_session(model, options);
    session.engine().set_point(x);
    return session;
  }
  SolverOptions options{.backend = Backend::cpu};
  ProblemModel model;
  RetraceCounts counts;
};

TEST(MixedPrecision, MemoryHasTheSystemInF32) {
  Springs springs;
  const Session wide = springs.open(Precision::f64), narrow = springs.open(Precision::f32);
  const Session mixed = springs.open(Precision::mixed);
  EXPECT_GT(host_bytes(narrow.engine()), 0u);
  EXPECT_GT(host_bytes(mixed.engine()),
            host_bytes(wide.engine()) + host_bytes(narrow.engine()) / 2);
  EXPECT_LE(host_bytes(mixed.engine()), host_bytes(wide.engine()) + host_bytes(narrow.engine()));
  EXPECT_GT(mixed.engine().abilities().measurements->copy_rate(), 1e8);
}

TEST(MixedPrecision, AnEvaluationElsewhereMovesTheLinearSystemToo) {
  Springs springs;
  const Session mixed = springs.open(Precision::mixed), wide = springs.open(Precision::f64);
  const runtime::StepRequest request{.lambda = 1e-3, .linear_tolerance = 1e-7};
  runtime::damped_steps(mixed.engine()).linearize();
  runtime::damped_steps(mixed.engine()).try_step(request);
  const std::vector<double> x(springs.x.size(), -2.0);
  double cost = 0;
  runtime::begin(mixed.engine(), Pass::cost, x, {}, std::span(&cost, 1))->finish();
  wide.engine().set_point(x);
  EXPECT_NEAR(cost, wide.engine().cost(), 1e-12 * cost);
  std::vector<double> expected(x.size()), actual(x.size());
  for (const auto& [session, step] : {std::pair(&wide, &expected), std::pair(&mixed, &actual)}) {
    runtime::damped_steps(session->engine()).try_step(request);
    runtime::damped_steps(session->engine()).trial_point(*step);
  }
  for (std::size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(actual[k], expected[k], 1e-4) << k;
}

TEST(HostEngine, PassesOnWhatItDoesNotDoItself) {
  Springs springs;
  const Session inner = springs.open(Precision::f64);
  Session host = on_host(springs.open(Precision::f64), springs.model);
  host.engine().set_point(springs.x);
  EXPECT_EQ(host_bytes(host.engine()), host_bytes(inner.engine()));
  EXPECT_GT(host.engine().abilities().measurements->copy_rate(), 1e8);
  EXPECT_TRUE(host.engines->prepare(runtime::Need::evaluation(Pass::gradient)));
  const std::vector<double> delta(springs.x.size(), 0.25);
  const runtime::StepReport step = runtime::damped_steps(host.engine()).try_step(delta);
  EXPECT_NE(host.engine().cost(), step.trial_cost);
  runtime::damped_steps(host.engine()).accept();
  EXPECT_EQ(host.engine().cost(), step.trial_cost);
  EXPECT_EQ(host.engine().abilities().step_lengths, nullptr);
}

TEST(HostEngine, BeginsEvaluationsWithItsOwnBlocks) {
  std::vector<double> x = {1, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] * p[1]);
  struct Difference final : HostResidual {
    int rows() const override { return 1; }
    bool evaluate(const double* const* a, double* r, double** jacobians) const override {
      r[0] = a[0][0] - a[1][0];
      if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 1;
      if (jacobians != nullptr && jacobians[1] != nullptr) jacobians[1][0] = -1;
      return true;
    }
  };
  problem.add_residual(std::make_shared<Difference>(), {{p, 0}, {p, 1}});
  const ProblemModel model = make_model("test", problem);
  const SolverOptions options{.backend = Backend::cpu};
  Session session = on_host(open_session(model, options), model);
  std::vector<double> rows(2);
  const std::vector<double> at = {3, 7};
  runtime::begin(session.engine(), Pass::residual, at, {}, rows)->finish();
  EXPECT_EQ(rows, (std::vector<double>{21, -4}));
  EXPECT_EQ(session.engine().abilities().asynchronous, nullptr);
}

TEST(FollowingEngine, PassesOnWhatItDoesNotDoItself) {
  Springs springs(test::Written::by_if);
  const Session inner = springs.open(Precision::f64);
  Session session = springs.open(Precision::f64);
  follow_branches(session, "test", springs.problem, springs.model, springs.options, springs.counts);
  ASSERT_TRUE(session.follows_branches);
  EXPECT_EQ(host_bytes(session.engine()), host_bytes(inner.engine()));
  EXPECT_GT(session.engine().abilities().measurements->copy_rate(), 1e8);
  EXPECT_TRUE(session.engines->prepare(runtime::Need{}));
}

TEST(FollowingEngine, BeginsEvaluationsOfBranchesThatHold) {
  Springs springs(test::Written::by_if), selected;
  Session session = springs.open(Precision::f64);
  const Session expected = selected.open(Precision::f64);
  follow_branches(session, "test", springs.problem, springs.model, springs.options, springs.counts);
  for (const double value : {0.1, -2.0, 2.0}) {
    const std::vector<double> x(springs.x.size(), value);
    double cost = 0;
    runtime::begin(session.engine(), Pass::cost, x, {}, std::span(&cost, 1))->finish();
    expected.engine().set_point(x);
    EXPECT_NEAR(cost, expected.engine().cost(), 1e-12 * cost) << "at " << value;
  }
  EXPECT_GT(springs.counts.retraces, 0u);
}

}  // namespace
}  // namespace topograd
