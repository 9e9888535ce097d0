// Host work of an outer step on a device: one submission and one readback of scalars. What the
// device decides about it is what the host's rules say.
#include <gtest/gtest.h>

#include "../../../runtime/vulkan/recording/recorder.hpp"
#include "../../../runtime/vulkan/recording/vector_ops.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/step_control/step_rules.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

class VulkanStepTraffic : public test::VulkanTest {};

struct Case {
  const char* what;
  std::function<Summary(const SolverOptions&)> run;
  SolverOptions options;
  std::uint64_t other;  // submissions other than steps: the start, the scaling, x at the end
};

template <class Make>
std::function<Summary(const SolverOptions&)> solve_of(const Make& make) {
  return [make](const SolverOptions& options) {
    const auto made = make();
    return solve(made->problem, options);
  };
}

const auto kArap = [] { return problems::arap(problems::icosphere(2)); };
const auto kSprings = [] { return problems::springs(20); };
const auto kBundle = [] {
  return problems::bundle({.cameras = 6, .points = 60, .observations = 200, .noise = 0.5});
};

/// So few iterations that none has its own submission.
SolverOptions one_list(LinearSolver solver, Preconditioner preconditioner) {
  return {.backend = Backend::vulkan,
          .linear_solver = solver,
          .max_iterations = 14,
          .function_tolerance = 1e-12,
          .max_linear_iterations = 16,
          .preconditioner = preconditioner};
}

std::vector<Case> cases() {
  constexpr LinearSolver pcg = LinearSolver::pcg, schur = LinearSolver::schur;
  constexpr Preconditioner blocks = Preconditioner::block_jacobi,
                           levels = Preconditioner::two_level;
  std::vector<Case> rows = {
      {"plain", solve_of(kArap), one_list(pcg, blocks), 5},
      {"f32", solve_of(kArap), one_list(pcg, blocks), 5},
      {"springs", solve_of(kSprings), one_list(pcg, blocks), 5},
      {"two levels", solve_of(kArap), one_list(pcg, levels), 6},
      {"Schur complement", solve_of(kBundle), one_list(schur, blocks), 5},
      {"factor", solve_of(kArap), one_list(LinearSolver::cholesky, blocks), 5},
      {"mixed", solve_of(kArap), one_list(pcg, blocks), 5},
      {"mixed, two levels", solve_of(kArap), one_list(pcg, levels), 6},
      {"mixed, Schur complement", solve_of(kBundle), one_list(schur, blocks), 5},
      {"mixed, factor", solve_of(kArap), one_list(LinearSolver::cholesky, blocks), 5},
  };
  rows[1].options.precision = Precision::f32;
  for (Case& row : rows) {
    if (std::string_view(row.what).ends_with("factor")) row.options.factor = FactorPlace::device;
    if (std::string_view(row.what).starts_with("mixed")) row.options.precision = Precision::mixed;
  }
  return rows;
}

TEST_F(VulkanStepTraffic, OneSubmissionAndOneReadBack) {
  TG_NEEDS(float64);
  int refused = 0;
  for (const Case& row : cases()) {
    SCOPED_TRACE(row.what);
    const Summary summary = row.run(row.options);
    const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
    EXPECT_GE(steps, 5u) << summary.full_report();
    refused += summary.num_unsuccessful_steps;
    EXPECT_LE(summary.submissions, steps + row.other);
    EXPECT_LE(summary.readbacks, steps + 3);
    EXPECT_EQ(summary.kernels_on_cpu, 0u);
  }
  EXPECT_GT(refused, 0);
}

/// The number of iterations varies with the radius, so that a solve may take more than were queued.
TEST_F(VulkanStepTraffic, LongSolvesTakeFewMore) {
  TG_NEEDS(float64);
  for (Case& row : cases()) {
    SCOPED_TRACE(row.what);
    row.options.max_linear_iterations = 500;
    const Summary summary = row.run(row.options);
    const auto steps = static_cast<std::uint64_t>(summary.num_iterations());
    EXPECT_LE(2 * summary.submissions, 3 * steps + 2 * row.other) << summary.full_report();
    EXPECT_LE(2 * summary.readbacks, 3 * steps + 6);
  }
}

/// With strict domains the host checks every trial and then decides on it.
TEST_F(VulkanStepTraffic, TheDeviceStepsAsTheHostWouldHave) {
  TG_NEEDS(float64);
  int refused = 0, rescaled = 0;
  for (Case& row : cases()) {
    SCOPED_TRACE(row.what);
    row.options.deterministic = true;
    row.options.forcing_sequence = ForcingSequence::eisenstat_walker;  // steps shrink and grow
    const Summary taken = row.run(row.options);
    row.options.domain = DomainPolicy::strict;
    const Summary judged = row.run(row.options);
    EXPECT_GE(judged.submissions, taken.submissions + taken.iterations.size() - 1);
    EXPECT_EQ(taken.message, judged.message);
    ASSERT_EQ(taken.iterations.size(), judged.iterations.size());
    for (std::size_t k = 0; k < taken.iterations.size(); ++k) {
      SCOPED_TRACE(k);
      const IterationSummary &t = taken.iterations[k], &j = judged.iterations[k];
      EXPECT_EQ(t.cost, j.cost);
      EXPECT_EQ(t.gradient_norm, j.gradient_norm);
      EXPECT_EQ(t.gradient_max_norm, j.gradient_max_norm);
      EXPECT_EQ(t.step_norm, j.step_norm);
      EXPECT_EQ(t.relative_decrease, j.relative_decrease);
      EXPECT_EQ(t.trust_region_radius, j.trust_region_radius);
      EXPECT_EQ(t.linear_iterations, j.linear_iterations);
      EXPECT_EQ(t.step_is_successful, j.step_is_successful);
      refused += t.step_is_successful ? 0 : 1;
    }
    row.options.domain = DomainPolicy::mathematical;
    row.options.rescale_steps = false;
    const Summary plain = row.run(row.options);
    rescaled += plain.final_cost != taken.final_cost ? 1 : 0;
    EXPECT_LE(plain.readbacks, static_cast<std::uint64_t>(plain.num_iterations()) + 3);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(rescaled, 0);
}

/// The kernels that decide on steps, run on numbers.
class Decisions {
 public:
  using Scalar = codegen::Scalar;
  using Scalars = std::vector<std::pair<Scalar, double>>;

  Decisions() {
    const std::vector<std::uint32_t> groups(3, 1);
    groups_ = runtime::vulkan::make_buffer(context_, groups, "groups");
    opened_ = runtime::vulkan::make_buffer(context_, groups, "opened");
    namespace kernel = runtime::vulkan::kernel;
    const auto record = [this](auto decides) {
      decides.buffers = {.workgroups = groups_, .opened = opened_};
      decides.push.count = 3;
      return [this, decides](runtime::vulkan::CommandList& list) {
        vectors_.record(list, decides);
        list.barrier();
        vectors_.record_read(list);
      };
    };
    recorder_.make_lists({{choose_, "choose_length", record(kernel::choose_length{})},
                          {take_, "take_step", record(kernel::take_step{})}});
  }

  void choose_length(const Scalars& scalars) { run(choose_, scalars); }
  void take_step(const Scalars& scalars) { run(take_, scalars); }
  double operator[](Scalar scalar) const { return vectors_.last_read()[codegen::slot(scalar)]; }
  bool opened() {
    std::vector<std::uint32_t> words(3);
    context_.device->download<std::uint32_t>(opened_, words);
    return words[0] > 0;
  }

 private:
  void run(const runtime::vulkan::Recorded& list, const Scalars& scalars) {
    vectors_.write(scalars);
    recorder_.submit(list);
    vectors_.read(recorder_.last());
  }

  runtime::vulkan::Context context_ = runtime::vulkan::open_context({});
  runtime::vulkan::Recorder recorder_{context_};
  runtime::vulkan::VectorOps vectors_{context_, false};
  runtime::vulkan::Buffer groups_, opened_;
  runtime::vulkan::Recorded choose_, take_;
};

/// Reports of trials: gains on both sides of every threshold, and numbers that are none.
runtime::StepReport random_report(std::mt19937& random, double cost) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double gains[] = {-1.5, -0.5, 0.0, 5e-4, 2e-3, 0.5, 0.9, 1.1, 1.5, 2.5};
  std::uniform_real_distribution<double> some(0.5, 1.5);
  const double decrease = cost * std::pow(10.0, -3 * some(random));
  const double gain = gains[random() % std::size(gains)] * some(random);
  runtime::StepReport report{.model_decrease = decrease, .trial_cost = cost - gain * decrease};
  const std::uint32_t kind = random() % 16;
  if (kind == 0) report.trial_cost = kNone;
  if (kind == 1) report.trial_cost = std::numeric_limits<double>::infinity();
  if (kind == 2) report.model_decrease = -decrease;
  if (kind == 3) report.model_decrease = 0;
  if (kind == 4) report.model_decrease = kNone;
  return report;
}

TEST_F(VulkanStepTraffic, TheDeviceDecidesAsTheRulesOfTheHost) {
  TG_NEEDS(float64);
  using codegen::Scalar;
  constexpr double kSolved = static_cast<double>(codegen::SolverState::converged);
  Decisions decisions;
  std::mt19937 random(1);
  int accepted = 0, refused = 0, other_lengths = 0, kept_lengths = 0;
  for (int k = 0; k < 600; ++k) {
    SCOPED_TRACE(k);
    SolverOptions options;
    options.linear_tolerance = k % 2 == 0 ? 0.1 : 1e-8;
    options = resolved(options);
    StepRules rules(options, {});
    const double cost = std::pow(10.0, static_cast<double>(random() % 7) - 3);
    rules.start(cost);
    rules.set_point({.cost = cost}, cost);
    runtime::StepReport report = random_report(random, cost);
    const runtime::StepRule rule{.least_gain = rules.least_gain()};
    const double bends = std::uniform_real_distribution<double>(-1, 1)(random);
    const runtime::StepReport other{.trial_cost =
                                        report.trial_cost + bends * report.model_decrease};

    decisions.choose_length({{Scalar::state, kSolved},
                             {Scalar::cost, cost},
                             {Scalar::trial_cost, report.trial_cost},
                             {Scalar::model_decrease, report.model_decrease},
                             {Scalar::least_gain, rule.least_gain},
                             {Scalar::least_change, rule.least_change},
                             {Scalar::longest, rule.longest}});
    const std::optional<double> length = rules.other_length(report);
    EXPECT_EQ(decisions[Scalar::is_rescaled], length ? 1 : 0);
    EXPECT_EQ(decisions.opened(), length.has_value());
    EXPECT_NEAR(decisions[Scalar::length], length.value_or(1), 1e-12);

    decisions.take_step({{Scalar::rescaled_cost, other.trial_cost},
                         {Scalar::min_gain, options.min_relative_decrease},
                         {Scalar::min_decrease, 0}});
    const bool kept = length && StepRules::take_length(report, *length, other);
    EXPECT_EQ(decisions[Scalar::goes_back], length && !kept ? 1 : 0);
    EXPECT_NEAR(decisions[Scalar::length], kept ? *length : 1, 1e-12);
    const bool takes = rules.accepts(rules.judge(report), report);
    using Verdict = codegen::Verdict;
    EXPECT_EQ(decisions[Scalar::verdict],
              static_cast<double>(takes ? Verdict::accepted : Verdict::refused));
    EXPECT_EQ(decisions.opened(), takes);
    if (takes) {
      EXPECT_EQ(decisions[Scalar::trial_cost], report.trial_cost);
      EXPECT_NEAR(decisions[Scalar::model_decrease], report.model_decrease,
                  1e-12 * report.model_decrease);
    }
    (takes ? accepted : refused) += 1;
    other_lengths += length ? 1 : 0;
    kept_lengths += kept ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
  EXPECT_GT(other_lengths, 50);
  EXPECT_GT(kept_lengths, 20);
}

}  // namespace
}  // namespace topograd
