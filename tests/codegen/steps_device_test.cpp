// Kernels for steps, on a device: step length, acceptance, and conditional dispatch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "vector_fixture.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::Precision;
using codegen::Scalar;
using codegen::slot;
using codegen::SolverState;
using codegen::VectorOp;
using codegen::Verdict;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Trial {
  const char* what;
  double trial_cost;      // at the full step; the cost is 8
  double model_decrease;  // > 0 for a useful step
  double rescaled_cost;   // at the other length
  // expected
  double length;  // length tried
  double kept;    // length that is kept
  double cost;    // cost there
  Verdict verdict;
  SolverState state = SolverState::converged;
  double min_decrease = 0, slope = 0;
  double least_gain = -1;
};

TEST_F(VectorKernels, StepsAreJudgedAsOnTheHost) {
  const Trial rows[] = {
      {"as the model says", 6, 2, kNan, 1, 1, 6, Verdict::accepted},
      {"nothing gained", 8, 2, 9, 0.5, 1, 8, Verdict::refused},
      {"half is better", 8, 2, 7, 0.5, 0.5, 7, Verdict::accepted},
      {"equal is not better", 6.5, 0.5, 6.5, 2, 1, 6.5, Verdict::accepted},
      {"a concave line", 4, 1.5, 3, 2, 2, 3, Verdict::accepted},
      {"worse than least_gain", 10.5, 2, 7, 1, 1, 10.5, Verdict::refused},
      {"no number", kNan, 2, 7, 1, 1, kNan, Verdict::refused},
      {"infinite", kInf, 2, 7, 1, 1, kInf, Verdict::refused},
      {"the other one is none", 8, 2, kNan, 0.5, 1, 8, Verdict::refused},
      {"no decrease expected", 6, -1, 7, 1, 1, 6, Verdict::refused},
      {"no model", 6, kNan, 7, 1, 1, 6, Verdict::refused},
      {"still running", 6, 2, 7, 1, 1, 6, Verdict::undecided, SolverState::running},
      {"breakdown", 6, 2, 7, 1, 1, 6, Verdict::accepted, SolverState::breakdown},
      {"no other lengths", 8, 2, 7, 1, 1, 8, Verdict::refused, SolverState::limit, 0, 0, kInf},
      {"falls enough", 6, 2, kNan, 1, 1, 6, Verdict::accepted, SolverState::converged, 0.5, -4},
      {"falls too little", 6.5, 2, kNan, 1, 1, 6.5, Verdict::undecided, SolverState::converged, 0.5,
       -4, kInf},
  };
  for (const auto& [vectors, scalars] : pairs()) {
    for (const Trial& row : rows) {
      SCOPED_TRACE(std::string(row.what) + " " + std::string(name(scalars)));
      KernelRunner runner(device_);
      set_scalars(runner, scalars,
                  {{slot(Scalar::state), static_cast<double>(row.state)},
                   {slot(Scalar::cost), 8},
                   {slot(Scalar::trial_cost), row.trial_cost},
                   {slot(Scalar::model_decrease), row.model_decrease},
                   {slot(Scalar::slope), row.slope},
                   {slot(Scalar::min_gain), 1e-3},
                   {slot(Scalar::min_decrease), row.min_decrease},
                   {slot(Scalar::least_gain), row.least_gain},
                   {slot(Scalar::least_change), 0.2},
                   {slot(Scalar::longest), 2},
                   {slot(Scalar::rescaled_cost), row.rescaled_cost}});
      const std::vector<std::uint32_t> all = {7, 1, 1, 5, 2, 1};
      runner.set(BufferRole::starts, all);
      runner.set(BufferRole::outputs, all);
      const auto run = [&](VectorOp op, bool opens) {
        runner.run_vector({.op = op, .vectors = vectors, .scalars = scalars}, {.count = 6}, 1);
        EXPECT_EQ(runner.words(BufferRole::outputs), opens ? all : std::vector<std::uint32_t>(6));
        return runner.numbers(BufferRole::scalars, scalars);
      };
      const auto chosen = run(VectorOp::choose_length, row.length != 1);
      EXPECT_EQ(chosen[slot(Scalar::length)], row.length);
      EXPECT_EQ(chosen[slot(Scalar::is_rescaled)], row.length != 1 ? 1 : 0);
      const auto taken = run(VectorOp::take_step, row.verdict == Verdict::accepted);
      EXPECT_EQ(taken[slot(Scalar::verdict)], static_cast<double>(row.verdict));
      EXPECT_EQ(taken[slot(Scalar::length)], row.kept);
      EXPECT_EQ(taken[slot(Scalar::goes_back)], row.length != row.kept ? 1 : 0);
      if (!std::isnan(row.cost)) {
        EXPECT_EQ(taken[slot(Scalar::trial_cost)], row.cost);
      }
      const double shorter = row.kept < 1 ? row.kept * (2 - row.kept) : 1;
      if (!std::isnan(row.model_decrease)) {
        EXPECT_EQ(taken[slot(Scalar::model_decrease)], row.model_decrease * shorter);
      }
    }
  }
}

TEST_F(VectorKernels, ConditionalSectionsOpenAboveZero) {
  const std::vector<std::uint32_t> all = {7, 1, 1, 5, 2, 1};
  for (const double opens : {1.0, 0.0, -1.0, 1e-3, kNan}) {
    KernelRunner runner(device_);
    const std::uint32_t place = slot(Scalar::user);
    set_scalars(runner, Precision::f32, {{place, opens}});
    runner.set(BufferRole::starts, all);
    runner.set(BufferRole::outputs, std::vector<std::uint32_t>(all.size(), 99));
    runner.run_vector(
        {.op = VectorOp::open_conditional, .vectors = Precision::f32, .scalars = Precision::f32},
        {.count = 6, .a = place}, 1);
    EXPECT_EQ(runner.words(BufferRole::outputs),
              opens > 0 ? all : std::vector<std::uint32_t>(all.size(), 0))
        << opens;
  }
}

}  // namespace
}  // namespace topograd::test
