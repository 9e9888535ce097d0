// What all engines share: the column scaling of their steps.
#include <gtest/gtest.h>
#include <topograd/runtime/cpu/engine.hpp>

#include "runtime/step_checks.hpp"

namespace topograd::test {
namespace {

TEST(CpuEngine, ColumnScalingIsThatOfTheFirstStep) {
  check_scaling_stays(
      [](const runtime::Model& model) { return runtime::cpu::make_cpu_engine(model, {}); });
}

}  // namespace
}  // namespace topograd::test
