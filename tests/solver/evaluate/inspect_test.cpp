// Places of non-finite values, domain policies and cross-checks on the interpreter.
#include "inspect.hpp"

#include "../../../runtime/cpu/engine.hpp"
#include "../../../runtime/rows/rows.hpp"
#include "../../../solver/model/inspect.hpp"

#include <cmath>
#include <memory>

namespace topograd::test {
namespace {

TEST(Inspect, NonfinitePlacesOnTheInterpreter) {
  for (const Precision precision : {Precision::f64, Precision::f32})
    expect_nonfinite_places({.backend = Backend::cpu, .precision = precision});
}

TEST(Inspect, DomainPoliciesOnTheInterpreter) {
  for (const Precision precision : {Precision::f64, Precision::f32})
    expect_domain_policies({.backend = Backend::cpu, .precision = precision});
}

// The interpreter's engine with one wrong residual, derivative and sum.
class Off final : public runtime::Engine {
 public:
  explicit Off(const runtime::Model& model) : inner_(runtime::cpu::make_cpu_engine(model, {})) {}
  runtime::Backend backend() const override { return runtime::Backend::cpu; }
  std::string device() const override { return "off"; }
  runtime::EngineStats stats() const override { return {}; }
  runtime::Abilities abilities() override { return {}; }
  std::unique_ptr<runtime::RowRunner> row_runner() const override { return inner_->row_runner(); }
  void refresh(const runtime::Model& model) override { inner_->refresh(model); }
  void set_point(std::span<const double> x) override { inner_->set_point(x); }
  void point(std::span<double> x) override { inner_->point(x); }
  double cost() override { return inner_->cost(); }
  void residuals(std::span<double> out) override {
    inner_->residuals(out);
    out[2] *= 1 + 1e-12;
  }
  void gradient(std::span<double> out) override {
    inner_->gradient(out);
    out[0] += 1e-9;
  }
  void jacobian(std::size_t term, std::span<double> values) override {
    inner_->jacobian(term, values);
    values[1] *= 1 - 1e-12;
  }
  void jvp(std::span<const double>, std::span<double>) override {}
  void vjp(std::span<const double>, std::span<double>) override {}
  void jtjp(std::span<const double> p, std::span<double> out) override {
    inner_->jtjp(p, out);
    out[1] *= 1 + 1e-11;
  }

 private:
  std::unique_ptr<runtime::Engine> inner_;
};

TEST(Inspect, CrossCheckNamesKernelInstanceAndOutput) {
  std::vector<double> x = {0.5, 1.5, 2.5};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (std::size_t k = 0; k < x.size(); ++k)
    problem.add_residual(exp(p[k]) * p[(k + 1) % 3], {.label = "wave"});
  const ProblemModel model = make_model("test", problem);
  Off engine(model.model);
  engine.set_point(x);
  const SolverOptions options{.cross_check = kCrossCheckAll};
  Summary summary;
  Inspector(options, model, summary).cross_check(engine);
  const CrossCheck& found = summary.cross_check;
  EXPECT_EQ(found.compared, 3u + 6u + 3u + 3u);
  ASSERT_EQ(found.differences, 4u);
  const auto begins = [&](std::size_t k, const std::string& pattern) {
    EXPECT_TRUE(std::regex_search(found.messages[k], std::regex("^" + pattern)))
        << found.messages[k];
  };
  begins(0,
         "cpu residual kernel of residual \"wave\" #2 \\(topology [0-9a-f]{32}\\), output 0: .*, "
         "on the interpreter .*, allowed difference [0-9.e-]+$");
  begins(1, "cpu jacobian kernel of residual \"wave\" #0 .*, output 1: ");
  begins(2, "cpu gradient kernels, scalar 0: ");
  begins(3, "cpu jtjp kernels, scalar 1: ");
  EXPECT_NE(summary.full_report().find("Cross-check: 15 outputs compared, 4 differences"),
            std::string::npos);
}

TEST(Inspect, CrossCheckOfASolve) {
  std::vector<double> x = {2, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  for (double t = 0; t < 5; ++t) problem.add_residual(p[0] * exp(p[1] * t * 0.1) - t);
  const Summary all = solve(problem, {.backend = Backend::cpu, .cross_check = kCrossCheckAll});
  EXPECT_EQ(all.cross_check.differences, 0u) << all.full_report();
  EXPECT_GE(all.cross_check.compared, 17u * static_cast<unsigned>(all.num_successful_steps));
  const Summary none = solve(problem, {.backend = Backend::cpu});
  EXPECT_EQ(none.cross_check.compared, 0u);
}

}  // namespace
}  // namespace topograd::test
