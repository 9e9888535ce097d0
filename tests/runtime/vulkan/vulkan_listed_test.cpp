// Conjugate gradients on a device with the sums of the CPU: the same bits as on the CPU.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/engine/damped_steps.hpp"
#include "../../../runtime/vulkan/linear/listed_solver.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <sstream>
#include <vector>

namespace topograd::test {
namespace {

using runtime::EngineOptions;
using runtime::ListedSolver;
using runtime::Preconditioner;

class VulkanListed : public VulkanTest {};

/// Counts the sweeps of a solver.
class CountedSolver final : public ListedSolver {
 public:
  CountedSolver(std::unique_ptr<ListedSolver> solver, int& updates, int& coarse_products)
      : solver_(std::move(solver)), updates_(updates), coarse_products_(coarse_products) {}
  bool follow(const runtime::ListedSystem& system) override { return solver_->follow(system); }
  void set_column(std::size_t term, std::size_t column, std::span<const double> values) override {
    solver_->set_column(term, column, values);
  }
  void set_damping(std::span<const double> damping, std::span<const std::uint8_t> held) override {
    solver_->set_damping(damping, held);
  }
  void set_coarse(const std::optional<runtime::ListedCoarse>& coarse) override {
    solver_->set_coarse(coarse);
  }
  std::span<const double> coarse_product(std::span<const double> y) override {
    ++coarse_products_;
    return solver_->coarse_product(y);
  }
  void begin(std::span<const double> right_side, std::span<const double> inverse) override {
    solver_->begin(right_side, inverse);
  }
  Residual update(std::optional<double> alpha) override {
    ++updates_;
    return solver_->update(alpha);
  }
  std::span<const double> product(std::optional<double> beta,
                                  std::span<const double> coarse) override {
    return solver_->product(beta, coarse);
  }
  void solution(std::span<double> x) override { solver_->solution(x); }

 private:
  std::unique_ptr<ListedSolver> solver_;
  int &updates_, &coarse_products_;
};

constexpr const char* kSeen = R"(program parameters=6 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = data 0
  %7 = mul %0, %3
  %8 = sin %1
  %9 = mul %8, %4
  %10 = add %7, %9
  %11 = sub %10, %6
  %12 = mul %2, %4
  %13 = add %12, %3
  %14 = sub %13, %5
  return %11, %14
})";

constexpr const char* kPrior = R"(program parameters=1 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = data 0
  %2 = sub %0, %1
  return %2
})";

// Three blocks of width 3 that very many residuals share, points of width 2, and a wide block.
OwnedModel shared_blocks_model() {
  OwnedModel m;
  std::minstd_rand random(3);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  constexpr std::uint32_t kPoints = 5000, kFirst = 9, kWide = kFirst + 2 * kPoints;
  m.model.arrays = {{0, 3, 3}, {kFirst, 2, kPoints}, {kWide, 20, 1}};
  m.model.scalars = kWide + 20;
  for (std::uint64_t k = 0; k < m.model.scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("seen", kSeen);
  m.add_term("prior", kPrior);
  for (std::uint32_t i = 0; i < 3 * kPoints; ++i) {
    const std::uint32_t c = 3 * (i % 3), p = kFirst + 2 * (i / 3);
    m.add_row(0, {c, c + 1, c + 2, p, p + 1, kWide + 7}, {uniform(random)});
  }
  for (std::uint32_t k = 0; k < kPoints; ++k) m.add_row(1, {kFirst + 2 * k + 1}, {uniform(random)});
  return m;
}

// Residuals of 48 rows that share a block: more products an entry than a small workgroup has
// invocations.
OwnedModel many_rows_model() {
  constexpr int kRows = 48;
  std::ostringstream program, rows;
  program << "program parameters=3 data=1 uniforms=0 seeds=0 {\n"
          << "  %0 = parameter 0\n  %1 = parameter 1\n  %2 = parameter 2\n  %3 = data 0\n"
          << "  %4 = mul %0, %2\n  %5 = sub %4, %1\n";
  for (int k = 6; k < 6 + kRows; ++k) {
    program << "  %" << k << " = sub %" << k - 1 << ", %3\n";
    rows << (k == 6 ? "%" : ", %") << k;
  }
  program << "  return " << rows.str() << "\n}";
  OwnedModel m;
  std::minstd_rand random(4);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  constexpr std::uint32_t kPoints = 300;
  m.model.arrays = {{0, 2, 1}, {2, 1, kPoints}};
  m.model.scalars = 2 + kPoints;
  for (std::uint64_t k = 0; k < m.model.scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("rows", program.str().c_str());
  for (std::uint32_t i = 0; i < kPoints; ++i) m.add_row(0, {0, 1, 2 + i}, {0.01 * uniform(random)});
  return m;
}

struct Steps {
  std::vector<int> iterations;
  std::vector<double> step;
  bool operator==(const Steps&) const = default;
};

Steps steps_of(const OwnedModel& m, const EngineOptions& options,
               std::unique_ptr<ListedSolver> solver) {
  const auto engine = runtime::cpu::make_cpu_engine(m.model, options, codegen::Bits::portable,
                                                    {nullptr, std::move(solver)});
  engine->set_point(m.x);
  runtime::DampedSteps& steps = runtime::damped_steps(*engine);
  steps.begin_solve();
  steps.linearize();
  Steps out;
  for (const double lambda : {1e-2, 1e-4}) {
    out.iterations.push_back(
        steps.try_step({.lambda = lambda, .linear_tolerance = 1e-9, .max_linear_iterations = 60})
            .linear_iterations);
    steps.accept();
    steps.linearize();
  }
  out.step.resize(m.x.size());
  engine->abilities().last_step->last_step(out.step);
  return out;
}

TEST_F(VulkanListed, StepsHaveTheBitsOfTheCpu) {
  TG_NEEDS(float64);
  const OwnedModel shared = shared_blocks_model(), rows_of_one = many_rows_model(),
                   springs = springs_model(300, 900), sheet = pulled_sheet_model(14);
  OwnedModel masked = pulled_sheet_model(14);
  masked.model.constant.assign(masked.x.size(), 0);
  for (const std::size_t k : {3, 4, 5, 100, 400}) masked.model.constant[k] = 1;
  const struct {
    const char* name;
    const OwnedModel& model;
    Preconditioner preconditioner = Preconditioner::block_jacobi;
    bool coarse = false;
  } rows[] = {{"long lists", shared},
              {"many rows", rows_of_one},
              {"fixed scalars", masked},
              {"two levels", sheet, Preconditioner::two_level, true},
              {"springs", springs}};
  for (const auto& [name, model, preconditioner, coarse] : rows) {
    SCOPED_TRACE(name);
    const EngineOptions options{
        .validation = true, .deterministic = true, .preconditioner = preconditioner};
    int updates = 0, coarse_products = 0;
    const Steps expected = steps_of(model, options, nullptr);
    const Steps found =
        steps_of(model, options,
                 std::make_unique<CountedSolver>(runtime::vulkan::make_listed_solver(options, 0),
                                                 updates, coarse_products));
    EXPECT_EQ(found, expected);
    EXPECT_GT(expected.iterations[0], 3);
    EXPECT_EQ(updates, found.iterations[0] + found.iterations[1] + 2);
    EXPECT_EQ(coarse_products > 0, coarse);
  }
}

TEST_F(VulkanListed, SmallSystemsStayOnTheCpu) {
  TG_NEEDS(float64);
  const OwnedModel m = springs_model(30, 90);
  const EngineOptions options{.validation = true, .deterministic = true};
  int updates = 0, coarse_products = 0;
  steps_of(m, options,
           std::make_unique<CountedSolver>(runtime::vulkan::make_listed_solver(options), updates,
                                           coarse_products));
  EXPECT_EQ(updates, 0);
}

}  // namespace
}  // namespace topograd::test
