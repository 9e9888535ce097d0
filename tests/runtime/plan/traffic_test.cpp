// Traffic of evaluations against sums by hand; copy rates and memory of the interpreter.
#include "../../../runtime/engine/traffic.hpp"
#include <gtest/gtest.h>
#include "../../../runtime/cpu/engine.hpp"

#include <string>

#include "../engines/engine_models.hpp"

namespace topograd::test {
namespace {

using codegen::Precision;
using runtime::Pass;

TEST(Traffic, CountsColumnsUnknownsAndResultsOnce) {
  constexpr std::uint64_t kVertices = 50, kEdges = 150, kAnchors = 4;
  const OwnedModel m = springs_model(kVertices, kEdges);
  ASSERT_EQ(m.model.scalars, 3 * kVertices);
  ASSERT_EQ(m.batches[0]->size(), kEdges);
  ASSERT_EQ(m.batches[1]->size(), kAnchors);
  struct Row {
    Pass pass;
    std::uint64_t numbers;  // read and written in addition to the columns
  };
  const std::uint64_t x = 3 * kVertices, rows = kEdges + 3 * kAnchors;
  for (const Row& row :
       {Row{Pass::residual, x + rows}, Row{Pass::cost, x}, Row{Pass::gradient, 2 * x},
        Row{Pass::jtjp, 3 * x}, Row{Pass::jvp, 2 * x + rows}, Row{Pass::vjp, 2 * x + rows},
        Row{Pass::blocks, x + 6 * kVertices},
        // Three numbers per spring, because the other three are their negatives;
        // an anchor's entries are ones and zeros.
        Row{Pass::jacobian, x + rows + 3 * kEdges}}) {
    for (const auto& [precision, bytes] :
         {std::pair(Precision::f32, 4u), std::pair(Precision::f64, 8u)}) {
      // A spring has two blocks' indices and a length, an anchor only the coordinate that varies:
      // the anchors are the first vertices in order.
      const std::uint64_t columns = kEdges * (2 * 4 + bytes) + kAnchors * bytes;
      EXPECT_EQ(runtime::Traffic(m.model, precision).bytes(row.pass), columns + bytes * row.numbers)
          << runtime::name(row.pass) << " with " << bytes << " bytes a number";
    }
  }
  const runtime::Traffic traffic(m.model, Precision::f64);
  EXPECT_EQ(traffic.step_bytes(10), traffic.bytes(Pass::gradient) +
                                        10 * (traffic.bytes(Pass::jtjp) + 9 * 8 * 3 * kVertices));
}

TEST(Traffic, EnergiesHaveNoRows) {
  const OwnedModel with = energy_model(30, 90), without = springs_model(30, 90);
  const runtime::Traffic a(with.model, Precision::f64), b(without.model, Precision::f64);
  for (const Pass pass : {Pass::residual, Pass::jtjp, Pass::jacobian})
    EXPECT_EQ(a.bytes(pass), b.bytes(pass)) << runtime::name(pass);
  for (const Pass pass : {Pass::cost, Pass::gradient, Pass::hvp})
    EXPECT_GT(a.bytes(pass), b.bytes(pass)) << runtime::name(pass);
}

TEST(Traffic, TheInterpreterSaysWhatItHoldsAndHowFastItCopies) {
  constexpr std::uint64_t kVertices = 40'000;
  const OwnedModel m = springs_model(kVertices, 3 * kVertices);
  const auto engine = runtime::cpu::make_cpu_engine(m.model, {.precision = Precision::f64});
  engine->set_point(m.x);
  std::uint64_t vectors = 0, before = 0, after = 0;
  for (const runtime::MemoryUse& use : engine->abilities().measurements->memory()) {
    EXPECT_GT(use.host, 0u) << use.use;
    EXPECT_EQ(use.device, 0u) << use.use;
    before += use.host;
    if (use.use == "vectors of unknowns") vectors = use.host;
  }
  EXPECT_GE(vectors, 6 * 8 * m.model.scalars);  // x, trial, gradient, step and two more
  runtime::damped_steps(*engine).linearize();
  for (const runtime::MemoryUse& use : engine->abilities().measurements->memory())
    after += use.host;
  // A residual and three entries of J are kept for each spring.
  EXPECT_GE(after, before + 4 * 8 * 3 * kVertices);
  runtime::damped_steps(*engine).try_step({.lambda = 1, .linear_tolerance = 0.1});
  // Six numbers of each block and as many of its inverse.
  for (const runtime::MemoryUse& use : engine->abilities().measurements->memory()) {
    if (use.use != "diagonal blocks") continue;
    EXPECT_GE(use.host, 2 * 6 * 8 * kVertices);
    EXPECT_LE(use.host, 2 * 9 * 8 * kVertices);
  }
  EXPECT_GT(engine->abilities().measurements->copy_rate(), 1e8);
  EXPECT_LT(engine->abilities().measurements->copy_rate(), 1e13);
}

}  // namespace
}  // namespace topograd::test
