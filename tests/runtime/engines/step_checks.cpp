// Checks of damped steps for all engines.
#include "step_checks.hpp"

#include <gtest/gtest.h>

#include <array>

#include "engine_models.hpp"

namespace topograd::test {

void check_scaling_stays(
    const std::function<std::unique_ptr<runtime::Engine>(const runtime::Model&)>& make) {
  OwnedModel m;
  m.model.arrays = {{0, 1, 1}};
  m.model.scalars = 1;
  m.add_term("square", R"(program parameters=1 data=0 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = square %0
  return %1
}
)");
  m.add_row(0, {0}, {});
  const std::unique_ptr<runtime::Engine> engine = make(m.model);
  // r = x²: J = 2 x, so the scaling at x = 1 is s = 1/3. The clamped diagonal is 10 in the scaled
  // space, 10 / s² = 90 in the original one.
  const runtime::StepRequest request{.lambda = 1, .min_diagonal = 10};
  struct Row {
    double x, delta;
  };
  for (const Row& row : {Row{1, -2.0 / (4 + 90)}, Row{3, -54.0 / (36 + 90)}}) {
    engine->set_point(std::array{row.x});
    runtime::damped_steps(*engine).linearize();
    runtime::damped_steps(*engine).try_step(request);
    std::array<double, 1> delta{};
    engine->abilities().last_step->last_step(delta);
    EXPECT_NEAR(delta[0], row.delta, 1e-12) << "at " << row.x;
  }
}

}  // namespace topograd::test
