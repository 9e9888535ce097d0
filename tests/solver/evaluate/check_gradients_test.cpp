// Detection of wrong derivatives by differences.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/check_gradients.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

/// (a² b, a + sin b) with hand-written derivatives, one of them times `factor`.
class ByHand final : public HostResidual {
 public:
  explicit ByHand(double factor) : factor_(factor) {}
  int rows() const override { return 2; }
  bool evaluate(const double* const* x, double* r, double** jacobians) const override {
    const double a = x[0][0], b = x[1][0];
    r[0] = a * a * b;
    r[1] = a + std::sin(b);
    if (jacobians == nullptr) return true;
    if (jacobians[0] != nullptr) jacobians[0][0] = 2 * a * b, jacobians[0][1] = 1;
    if (jacobians[1] != nullptr) jacobians[1][0] = a * a, jacobians[1][1] = factor_ * std::cos(b);
    return true;
  }

 private:
  double factor_;
};

struct Mixed {
  std::vector<double> x = {0.7, 1.3, -0.4, 2.1};
  Problem problem;
  Parameters p = problem.add_parameters(x);
};

const GradientCheckOptions kOnCpu = {.solver = {.backend = Backend::cpu}};

TEST(CheckGradients, TracedResidualsAreRight) {
  Mixed m;
  for (std::size_t k = 0; k < 3; ++k)
    m.problem.add_residual({exp(m.p[k]) * m.p[k + 1], sin(m.p[k]) / m.p[k + 1]},
                           {.loss = Loss::huber(0.1)});
  m.problem.add_residual(std::make_shared<ByHand>(1.0), {{m.p, 1}, {m.p, 3}});
  m.problem.add_energy(exp(m.p[0]) + m.p[3] * m.p[1]);
  const GradientCheck found = check_gradients(m.problem, kOnCpu);
  EXPECT_TRUE(found.passed()) << found.messages.front();
  EXPECT_GE(found.compared, 3u * 4 + 4 + 4);
  EXPECT_EQ(m.x, (std::vector<double>{0.7, 1.3, -0.4, 2.1}));
}

TEST(CheckGradients, NamesWhatIsWrong) {
  Mixed m;
  m.problem.add_residual(m.p[0] * m.p[1]);
  m.problem.add_residual(std::make_shared<ByHand>(1.0), {{m.p, 1}, {m.p, 3}}, {.label = "right"});
  m.problem.add_residual(std::make_shared<ByHand>(1.001), {{m.p, 2}, {m.p, 0}}, {.label = "off"});
  const GradientCheck found = check_gradients(m.problem, kOnCpu);
  EXPECT_FALSE(found.passed());
  ASSERT_EQ(found.wrong, 1u);
  EXPECT_NEAR(found.maximum_relative_error, 1e-3 / 1.001, 1e-8);
  EXPECT_EQ(found.messages[0].find("host residual \"off\" #1, row 1 by parameter array 0, block 0, "
                                   "coordinate 0: 0.765607"),
            0u)
      << found.messages[0];
  m.problem.set_constant(m.p, 0);
  EXPECT_TRUE(check_gradients(m.problem, kOnCpu).passed());
}

TEST(CheckGradients, RefusesOptionsOutOfRange) {
  Mixed m;
  m.problem.add_residual(m.p[0]);
  const auto error_of = [&](const GradientCheckOptions& options) -> std::string {
    try {
      check_gradients(m.problem, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.solver = {}, .relative_precision = 1}),
            "check_gradients: relative_precision must be in (0, 1), got 1");
  EXPECT_EQ(error_of({.solver = {}, .relative_precision = 0.1, .relative_step_size = 0}),
            "check_gradients: relative_step_size must be > 0, got 0");
}

}  // namespace
}  // namespace topograd::test
