// The two-level preconditioner on a device against the interpreter's.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace topograd::test {
namespace {

using codegen::Precision;
using runtime::Engine;
using runtime::EngineOptions;
using runtime::Preconditioner;
using Make = std::unique_ptr<Engine> (*)(const runtime::Model&, const EngineOptions&);

class VulkanTwoLevel : public VulkanTest {};

struct Outcome {
  std::vector<int> iterations;
  std::vector<double> step;
  runtime::PreconditionerUse use;
};

Outcome solve(Make make, const OwnedModel& m, const EngineOptions& options,
              const runtime::StepRequest& request, int steps = 1) {
  const auto engine = make(m.model, options);
  engine->set_point(m.x);
  runtime::damped_steps(*engine).begin_solve();
  runtime::damped_steps(*engine).linearize();
  Outcome out;
  for (int k = 0; k < steps; ++k)
    out.iterations.push_back(runtime::damped_steps(*engine).try_step(request).linear_iterations);
  out.step.resize(m.x.size());
  engine->abilities().last_step->last_step(out.step);
  out.use = runtime::damped_steps(*engine).preconditioner();
  return out;
}

constexpr runtime::StepRequest kLoose{
    .lambda = 1e-6, .linear_tolerance = 1e-4, .max_linear_iterations = 5000};
constexpr runtime::StepRequest kExact{
    .lambda = 1e-4, .linear_tolerance = 1e-11, .max_linear_iterations = 5000};

TEST_F(VulkanTwoLevel, StepsAndIterationsAreTheInterpreters) {
  TG_NEEDS(float64);
  struct Row {
    const char* name;
    bool masked;
    std::optional<codegen::Accumulation> strategy;
  };
  const Row rows[] = {{"free", false, std::nullopt},
                      {"masked", true, std::nullopt},
                      {"stored terms", false, codegen::Accumulation::gather_store}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    OwnedModel m = pulled_sheet_model(14);
    if (row.masked) {
      m.model.constant.assign(m.x.size(), 0);
      for (const std::size_t k : {3, 4, 5, 100, 700}) m.model.constant[k] = 1;
    }
    const EngineOptions options{.accumulation = row.strategy,
                                .validation = true,
                                .preconditioner = Preconditioner::two_level};
    const Outcome cpu =
        solve([](const runtime::Model& model,
                 const EngineOptions& of) { return runtime::cpu::make_cpu_engine(model, of); },
              m, options, kExact);
    const Outcome gpu = solve(runtime::vulkan::make_vulkan_engine, m, options, kExact);
    EXPECT_EQ(gpu.use.kind, Preconditioner::two_level);
    EXPECT_EQ(gpu.use.why, cpu.use.why);
    EXPECT_NEAR(gpu.iterations[0], cpu.iterations[0], 2);
    EXPECT_LE(relative_difference(gpu.step, cpu.step), 1e-9);
  }
}

TEST_F(VulkanTwoLevel, TakesAThirdOfTheIterations) {
  const OwnedModel m = pulled_sheet_model(24);
  for (const Precision precision : precisions()) {
    EngineOptions options{.precision = precision, .validation = true};
    const Outcome blocks = solve(runtime::vulkan::make_vulkan_engine, m, options, kLoose);
    options.preconditioner = Preconditioner::two_level;
    const Outcome two = solve(runtime::vulkan::make_vulkan_engine, m, options, kLoose);
    EXPECT_LE(3 * two.iterations[0], blocks.iterations[0]) << two.iterations[0];
    EXPECT_EQ(two.step, solve(runtime::vulkan::make_vulkan_engine, m, options, kLoose).step);
  }
}

TEST_F(VulkanTwoLevel, AutomaticBeginsWithBlocks) {
  TG_NEEDS(float64);
  const OwnedModel m = pulled_sheet_model(24);
  const EngineOptions options{.validation = true, .preconditioner = Preconditioner::automatic};
  const Outcome two = solve(runtime::vulkan::make_vulkan_engine, m, options, kLoose, 2);
  EXPECT_EQ(two.use.kind, Preconditioner::two_level);
  EXPECT_LE(3 * two.iterations[1], two.iterations[0]);  // the first is solved both ways
}

}  // namespace
}  // namespace topograd::test
