// Accumulation: rule, measurement, memory, plan records.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

#include "../../../runtime/plan/accumulation_rule.hpp"
#include "../../../runtime/plan/record/remembered_plans.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using codegen::Accumulation;
using runtime::ChosenBy;
using runtime::EngineOptions;
using runtime::PlanChoice;
using runtime::PlanRecord;

/// sin(p0 p1) cos(p2 p3) of four neighbouring scalars, each its own block.
constexpr const char* kFour = R"(program parameters=4 data=0 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = mul %0, %1
  %5 = mul %2, %3
  %6 = square %4
  %7 = add %6, %5
  %8 = mul %7, %4
  return %8
}
)";

OwnedModel fours_model(std::uint32_t instances) {
  OwnedModel m;
  m.model.arrays = {{.offset = 0, .width = 1, .blocks = instances + 3ull}};
  m.model.scalars = instances + 3ull;
  for (std::uint32_t k = 0; k < instances + 3; ++k) m.x.push_back(0.5 + 0.001 * (k % 700));
  m.add_term("four", kFour);
  for (std::uint32_t k = 0; k < instances; ++k) m.add_row(0, {k, k + 1, k + 2, k + 3}, {});
  return m;
}

/// Σ (p_k p_{k+1})² over `slots` scalars of an array of single scalars, three apart.
OwnedModel wide_model(std::uint32_t slots, std::uint32_t instances) {
  OwnedModel m;
  const std::uint32_t scalars = 3 * (slots + instances);
  m.model.arrays = {{.offset = 0, .width = 1, .blocks = scalars}};
  m.model.scalars = scalars;
  for (std::uint32_t k = 0; k < scalars; ++k) m.x.push_back(0.5 + 0.001 * (k % 700));
  std::string text =
      "program parameters=" + std::to_string(slots) + " data=0 uniforms=0 seeds=0 {\n";
  auto line = [&, next = 0](const std::string& op) mutable {
    text += "  %" + std::to_string(next) + " = " + op + "\n";
    return "%" + std::to_string(next++);
  };
  std::vector<std::string> p;
  for (std::uint32_t k = 0; k < slots; ++k) p.push_back(line("parameter " + std::to_string(k)));
  std::string sum = line("square " + line("mul " + p[0] + ", " + p[1]));
  for (std::uint32_t k = 1; k + 1 < slots; ++k) {
    const std::string term = line("square " + line("mul " + p[k] + ", " + p[k + 1]));
    sum = line("add " + sum + ", " + term);
  }
  m.add_term("wide", (text + "  return " + sum + "\n}\n").c_str());
  for (std::uint32_t i = 0; i < instances; ++i) {
    std::vector<std::uint32_t> row;
    for (std::uint32_t k = 0; k < slots; ++k) row.push_back(3 * k + 2 * i);
    m.add_row(0, row, {});
  }
  return m;
}

TEST(AccumulationRule, LongProgramsAndManyRolesStoreTheirTerms) {
  const struct {
    double recompute, store;
    std::uint64_t operations;
    Accumulation chosen;
    bool measured;  // for a large batch
    std::uint64_t repeated = 0;
  } rows[] = {{40, 90, 30, Accumulation::gather_recompute, false},
              {100, 90, 30, Accumulation::gather_recompute, true},
              {200, 90, 300, Accumulation::gather_store, true},
              {400, 90, 300, Accumulation::gather_store, false},
              {100, 90, 1001, Accumulation::gather_store, false},
              {100, 90, 700, Accumulation::gather_recompute, true, 2000},
              {100, 90, 700, Accumulation::gather_store, false, 2100}};
  for (const auto& row : rows) {
    SCOPED_TRACE(std::to_string(row.recompute) + ", " + std::to_string(row.operations));
    const runtime::AccumulationEstimate estimate{row.recompute, row.store, row.operations,
                                                 row.repeated};
    EXPECT_EQ(choose_accumulation(estimate), row.chosen);
    EXPECT_EQ(worth_measuring(estimate, 1u << 20), row.measured);
    EXPECT_FALSE(worth_measuring(estimate, 1000));
  }
  const OwnedModel springs = springs_model(10, 30);
  const auto shape = runtime::shape_of(springs.model.terms[0], springs.model.arrays);
  const auto estimate =
      estimate_accumulation(shape, runtime::Pass::gradient, codegen::Precision::f32);
  EXPECT_EQ(choose_accumulation(estimate), Accumulation::gather_recompute);
  EXPECT_GT(estimate.operations, 10u);
}

// Cost and gradient of springs in f64 by integers take an H200 804 us with terms that are evaluated
// again, and 435 with stored ones.
TEST(AccumulationRule, EmulatedFloat64MakesStoredTermsWorthMeasuring) {
  const OwnedModel springs = springs_model(10, 30);
  const auto shape = runtime::shape_of(springs.model.terms[0], springs.model.arrays);
  const auto worth = [&](codegen::Precision precision, codegen::Float64 float64) {
    return worth_measuring(
        estimate_accumulation(shape, runtime::Pass::gradient, precision, float64), 1u << 20);
  };
  using codegen::Float64, codegen::Precision;
  EXPECT_FALSE(worth(Precision::f64, Float64::native));
  EXPECT_TRUE(worth(Precision::f64, Float64::emulated));
  EXPECT_FALSE(worth(Precision::f32, Float64::emulated));
}

TEST(PlanRecord, SizeClassesAreFactorsOfTwo) {
  EXPECT_EQ(runtime::size_class(0), 0u);
  EXPECT_EQ(runtime::size_class(1), 0u);
  EXPECT_EQ(runtime::size_class(1023), 9u);
  EXPECT_EQ(runtime::size_class(1024), 10u);
}

class VulkanAccumulation : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    const char* set = std::getenv("TOPOGRAD_CACHE_DIR");
    before_ = set ? set : "";
    folder_ = std::filesystem::temp_directory_path() /
              ("topograd_accumulation_" + std::to_string(getpid()));
    use_cache(folder_.string());
  }
  void TearDown() override {
    use_cache(before_);
    std::filesystem::remove_all(folder_);
    VulkanTest::TearDown();
  }
  void use_cache(const std::string& folder) {
    device_ = nullptr;
    runtime::vulkan::release_devices();
    folder.empty() ? unsetenv("TOPOGRAD_CACHE_DIR")
                   : setenv("TOPOGRAD_CACHE_DIR", folder.c_str(), 1);
  }

  /// Returns the gradient and its accumulation.
  static PlanChoice choice(const OwnedModel& m, std::vector<double>& gradient,
                           const EngineOptions& options = {}) {
    const auto engine = runtime::vulkan::make_vulkan_engine(m.model, options);
    engine->set_point(m.x);
    gradient.resize(m.x.size());
    engine->gradient(gradient);
    const PlanRecord plan = engine->abilities().plans->plan();
    EXPECT_EQ(plan.device, engine->device());
    EXPECT_EQ(plan.batches.size(), 1u);
    return plan.batches.at(0);
  }

  std::filesystem::path folder_;
  std::string before_;
};

TEST_F(VulkanAccumulation, MeasuredOnceRememberedGivenForced) {
  TG_NEEDS(float64);
  const OwnedModel m = fours_model(20000);
  const std::vector<double> want = reference_gradient(m);
  std::vector<double> gradient;
  const auto check = [&](const EngineOptions& options, ChosenBy by) {
    const PlanChoice made = choice(m, gradient, options);
    EXPECT_EQ(made.by, by) << name(made.by);
    EXPECT_EQ(made.name, "four");
    EXPECT_EQ(made.pass, "gradient");
    EXPECT_EQ(made.instances, 20000u);
    EXPECT_LE(relative_difference(gradient, want), 1e-13);
    return made;
  };
  EXPECT_EQ(check({.deterministic = true}, ChosenBy::rule).accumulation,
            Accumulation::gather_recompute);
  const PlanChoice measured = check({}, ChosenBy::measured);
  ASSERT_EQ(measured.candidates.size(), 2u);
  for (const auto& candidate : measured.candidates) {
    EXPECT_GT(candidate.estimate, 0);
    EXPECT_GT(candidate.measured_us, 0);
  }
  const bool stores = measured.candidates[1].measured_us < measured.candidates[0].measured_us;
  EXPECT_EQ(measured.accumulation,
            stores ? Accumulation::gather_store : Accumulation::gather_recompute);
  const PlanChoice remembered = check({}, ChosenBy::remembered);
  EXPECT_EQ(remembered.accumulation, measured.accumulation);
  EXPECT_EQ(remembered.candidates[0].measured_us, measured.candidates[0].measured_us);
  const std::vector<PlanRecord> kept =
      runtime::remembered_plans(runtime::DiskCache({.folder = folder_}));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_FALSE(kept[0].device.empty());
  EXPECT_EQ(kept[0].precision, "f64");
  EXPECT_EQ(kept[0].batches[0].text(), measured.text());

  for (const Accumulation wanted : {Accumulation::gather_store, Accumulation::gather_recompute,
                                    Accumulation::atomic_float, Accumulation::atomic_cas}) {
    SCOPED_TRACE(name(wanted));
    const PlanChoice forced = check({.accumulation = wanted}, ChosenBy::forced);
    auto given = std::make_shared<PlanRecord>();
    given->batches = {forced};
    EXPECT_EQ(check({.deterministic = true, .plan = given}, ChosenBy::given).accumulation,
              forced.accumulation);
  }
  auto other = std::make_shared<PlanRecord>();
  other->batches = {measured};
  other->batches[0].instances = 200;  // of another size class
  check({.plan = other}, ChosenBy::remembered);
}

TEST_F(VulkanAccumulation, StoredAndRecomputedTermsMayMeetInOnePass) {
  TG_NEEDS(float64);
  OwnedModel m = springs_model(300, 900);
  const std::vector<double> want = reference_gradient(m);
  const auto engine = runtime::vulkan::make_vulkan_engine(m.model, {});
  engine->set_point(m.x);
  std::vector<double> gradient(m.x.size());
  engine->gradient(gradient);
  auto given = std::make_shared<PlanRecord>(engine->abilities().plans->plan());
  ASSERT_EQ(given->batches.size(), 2u);
  for (PlanChoice& made : given->batches) EXPECT_EQ(made.by, ChosenBy::rule);
  given->batches[0].accumulation = Accumulation::gather_store;
  const auto mixed = runtime::vulkan::make_vulkan_engine(m.model, {.plan = given});
  mixed->set_point(m.x);
  mixed->gradient(gradient);
  EXPECT_LE(relative_difference(gradient, want), 1e-13);
  EXPECT_EQ(mixed->abilities().plans->accumulation(),
            "gather_recompute, gather_store for some batches");
}

// Otherwise their kernel would contain the program once per slot of an instance.
TEST_F(VulkanAccumulation, DiagonalsOfManySlotsAreStoredToo) {
  TG_NEEDS(float64);
  const OwnedModel m = wide_model(8, 40);
  std::vector<double> steps[2];
  for (const bool forced : {false, true}) {
    EngineOptions options;
    if (forced) options.accumulation = Accumulation::gather_recompute;
    const auto engine = runtime::vulkan::make_vulkan_engine(m.model, options);
    engine->set_point(m.x);
    runtime::damped_steps(*engine).linearize();
    runtime::damped_steps(*engine).try_step({.lambda = 1, .linear_tolerance = 1e-12});
    std::vector<double>& step = steps[forced ? 1 : 0];
    step.resize(m.x.size());
    engine->abilities().last_step->last_step(step);
    const PlanRecord plan = engine->abilities().plans->plan();
    const auto made = std::ranges::find(plan.batches, "diagonal", &PlanChoice::pass);
    ASSERT_NE(made, plan.batches.end());
    EXPECT_EQ(made->by, forced ? ChosenBy::forced : ChosenBy::rule);
    EXPECT_EQ(made->accumulation,
              forced ? Accumulation::gather_recompute : Accumulation::gather_store);
    const auto& kernels = plan.kernels;
    EXPECT_EQ(std::ranges::count(kernels, "wide_blocks", &runtime::KernelFigures::name), forced);
    EXPECT_EQ(std::ranges::count(kernels, "wide_diagonal", &runtime::KernelFigures::name), !forced);
  }
  EXPECT_LE(relative_difference(steps[0], steps[1]), 1e-11);
}

}  // namespace
}  // namespace topograd::test
