// Cost, gradient and residuals from one sweep on the device: strategies, precisions, pieces,
// choices.
#include "../../support/environment.hpp"
#include "../../support/validation.hpp"
#include "../engines/value_checks.hpp"
#include "strategies.hpp"

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using codegen::Accumulation;
using codegen::Precision;
using runtime::ChosenBy;
using runtime::Engine;
using runtime::EngineOptions;
using runtime::PlanChoice;
using runtime::PlanRecord;

class VulkanValues : public VulkanTest {
 protected:
  static std::unique_ptr<Engine> open(const OwnedModel& m, const EngineOptions& options) {
    std::unique_ptr<Engine> engine = runtime::vulkan::make_vulkan_engine(m.model, options);
    engine->set_point(m.x);
    return engine;
  }
};

TEST_F(VulkanValues, AreThoseOfOneAfterTheOther) {
  const struct {
    const char* name;
    OwnedModel (*make)();
  } cases[] = {{"springs", [] { return springs_model(1000, 3000); }},
               {"a block that all share", [] { return shared_model(2000); }},
               {"coordinates that change", [] { return chain_model(1024); }},
               {"residuals and energies", [] { return energy_model(300, 900); }},
               {"two arrays", [] { return pulled_sheet_model(20); }}};
  for (const Precision precision : precisions()) {
    const bool wide = precision == Precision::f64;
    // One case covers all strategies in both precisions: drivers compile these kernels slowly.
    for (const auto& c : std::span(cases).first(wide ? std::size(cases) : 1)) {
      OwnedModel m = c.make();
      if (!wide) round_to_float(m);
      for (const Accumulation strategy : kStrategies) {
        SCOPED_TRACE(std::string(c.name) + ", " + std::string(name(precision)) + ", " +
                     std::string(name(strategy)));
        const auto engine = open(m, {.precision = precision, .accumulation = strategy});
        check_values(*engine, m, wide ? 1e-12 : 2e-5, false);
      }
    }
  }
}

TEST_F(VulkanValues, GathersGiveTheSameBits) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(1000, 3000);
  for (const Accumulation strategy : {Accumulation::gather_recompute, Accumulation::gather_store})
    check_values(*open(m, {.accumulation = strategy}), m, 1e-13, true);
}

TEST_F(VulkanValues, InPieces) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(3000, 9000);
  for (const Accumulation strategy : kStrategies) {
    for (EngineOptions options :
         {EngineOptions{.max_storage_buffer_range = m.x.size() * sizeof(double)},
          EngineOptions{.max_instances_per_dispatch = 1000},
          EngineOptions{.max_instances_per_dispatch = 50},
          EngineOptions{.max_workgroup_invocations = 32}}) {
      SCOPED_TRACE(testing::Message() << name(strategy) << ", " << options.max_storage_buffer_range
                                      << ", " << options.max_instances_per_dispatch);
      options.accumulation = strategy;
      check_values(*open(m, options), m, 1e-12, false);
    }
  }
}

// Fixed blocks have no entries under a mask, so that no block slot has all instances.
TEST_F(VulkanValues, WithConstantBlocks) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(6000, 18000);
  m.model.constant.assign(m.x.size(), 0);
  std::fill_n(m.model.constant.begin(), m.x.size() / 2, std::uint8_t{1});
  std::vector<double> alone(m.x.size()), together(m.x.size());
  for (const bool deterministic : {true, false}) {
    const auto engine = open(m, {.deterministic = deterministic});
    engine->gradient(alone);
    double cost = 0;
    runtime::evaluate(*engine, {.cost = &cost, .gradient = together});
    EXPECT_NEAR(cost, reference_cost(m), 1e-12 * cost);
    for (std::size_t k = m.x.size() / 2; k < m.x.size(); ++k)
      ASSERT_NEAR(together[k], alone[k], 1e-12 * (1 + std::abs(alone[k]))) << k;
  }
}

TEST_F(VulkanValues, OneSubmissionAndHalfOfTheKernels) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(1000, 3000);
  const auto engine = open(m, {.deterministic = true});
  std::vector<double> rows(m.model.rows), gradient(m.x.size());
  double cost = 0;
  const auto counted = [&](const runtime::Values& wanted) {
    runtime::evaluate(*engine, wanted);  // kernels are made, lists recorded
    const runtime::EngineStats before = engine->stats();
    runtime::evaluate(*engine, wanted);
    const runtime::EngineStats after = engine->stats();
    EXPECT_EQ(after.submissions, before.submissions + 1);
    return after.kernels_on_device - before.kernels_on_device;
  };
  EXPECT_EQ(counted({.cost = &cost, .gradient = gradient}), 2u);  // for springs and for anchors
  EXPECT_EQ(counted({.cost = &cost, .residuals = rows, .gradient = gradient}), 2u);
}

TEST_F(VulkanValues, ChoicesArePartOfThePlanRecord) {
  TG_NEEDS(float64);
  const auto folder =
      std::filesystem::temp_directory_path() / ("topograd_values_" + std::to_string(getpid()));
  const ScopedEnvironment cache("TOPOGRAD_CACHE_DIR", folder.string());
  device_ = nullptr;
  runtime::vulkan::release_devices();
  const OwnedModel m = springs_model(8000, 24000);
  std::vector<double> gradient(m.x.size());
  double cost = 0;
  const auto choice = [&](const EngineOptions& options) {
    const auto engine = open(m, options);
    runtime::evaluate(*engine, {.cost = &cost, .gradient = gradient});
    EXPECT_NEAR(cost, reference_cost(m), 1e-12 * cost);
    const PlanRecord plan = engine->abilities().plans->plan();
    const auto found = std::ranges::find_if(plan.batches, [](const PlanChoice& made) {
      return made.pass == "cost_gradient" && made.instances == 24000;
    });
    EXPECT_NE(found, plan.batches.end());
    return found == plan.batches.end() ? PlanChoice{} : *found;
  };
  const PlanChoice by_rule = choice({.deterministic = true});
  EXPECT_EQ(by_rule.by, ChosenBy::rule);
  EXPECT_TRUE(by_rule.one_pass);
  const PlanChoice measured = choice({});
  EXPECT_EQ(measured.by, ChosenBy::measured);
  ASSERT_EQ(measured.candidates.size(), 2u);
  const bool faster = measured.candidates[0].measured_us <= measured.candidates[1].measured_us;
  EXPECT_EQ(measured.one_pass, faster);
  const PlanChoice again = choice({});
  EXPECT_EQ(again.by, ChosenBy::remembered);
  EXPECT_EQ(again.one_pass, measured.one_pass);
  for (const bool wanted : {true, false}) {
    auto given = std::make_shared<PlanRecord>();
    given->batches = {measured};
    given->batches[0].one_pass = wanted;
    const PlanChoice taken = choice({.plan = given});
    EXPECT_EQ(taken.by, ChosenBy::given);
    EXPECT_EQ(taken.one_pass, wanted);
  }
  runtime::vulkan::release_devices();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace topograd::test
