// Checks of second derivatives for all engines.
#include "second_order_checks.hpp"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

namespace topograd::test {
namespace {

using Numbers = std::vector<double>;

Numbers direction(const OwnedModel& m) {
  Numbers p;
  for (std::size_t k = 0; k < m.x.size(); ++k)
    p.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(k) + 0.2)));
  return p;
}

/// Richardson's extrapolation of differences of the gradient along p.
Numbers differences(OwnedModel& m, const Numbers& p) {
  const Numbers x = m.x;
  const auto central = [&](double h) {
    Numbers out;
    for (const double step : {h, -h}) {
      for (std::size_t k = 0; k < x.size(); ++k) m.x[k] = x[k] + step * p[k];
      const Numbers g = reference_gradient(m);
      out.resize(g.size());
      for (std::size_t k = 0; k < g.size(); ++k) out[k] += g[k] / (2 * step);
    }
    return out;
  };
  const Numbers wide = central(1e-4), narrow = central(5e-5);
  m.x = x;
  Numbers out;
  for (std::size_t k = 0; k < wide.size(); ++k) out.push_back((4 * narrow[k] - wide[k]) / 3);
  return out;
}

/// The sum of all instances' matrices times p.
Numbers product(const OwnedModel& m, const std::vector<Numbers>& packed, const Numbers& p) {
  Numbers out(m.x.size());
  for (std::size_t t = 0; t < packed.size(); ++t) {
    const ir::Batch& batch = *m.model.terms[t].batch;
    const double* entry = packed[t].data();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::uint32_t a = 0; a < batch.parameter_columns(); ++a) {
        for (std::uint32_t b = a; b < batch.parameter_columns(); ++b, ++entry) {
          const std::uint32_t row = batch.index(i, a), column = batch.index(i, b);
          out[row] += *entry * p[column];
          if (a != b) out[column] += *entry * p[row];
        }
      }
    }
  }
  return out;
}

void expect_projected(const Numbers& plain, const Numbers& projected, Eigen::Index n,
                      double bound) {
  const Eigen::Index size = n * (n + 1) / 2;
  const auto full = [&](const double* packed) {
    Eigen::MatrixXd out(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = i; j < n; ++j) out(i, j) = out(j, i) = *packed++;
    return out;
  };
  int negative = 0;
  for (std::size_t at = 0; at < plain.size(); at += static_cast<std::size_t>(size)) {
    const Eigen::MatrixXd h = full(&plain[at]);
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(h);
    const Eigen::MatrixXd want = solver.eigenvectors() *
                                 solver.eigenvalues().cwiseMax(0.0).asDiagonal() *
                                 solver.eigenvectors().transpose();
    negative += solver.eigenvalues()[0] < -1e-3 ? 1 : 0;
    ASSERT_LE((full(&projected[at]) - want).norm(), bound * (h.norm() + 1e-300)) << "number " << at;
  }
  if (n == 6) {
    EXPECT_GT(negative, 0);  // compressed springs
  }
}

}  // namespace

std::vector<Numbers> hessians(runtime::Engine& engine, const OwnedModel& m, bool project) {
  std::vector<Numbers> out;
  for (std::size_t t = 0; t < m.model.terms.size(); ++t) {
    const std::size_t n = m.model.terms[t].batch->parameter_columns();
    out.emplace_back(m.model.terms[t].batch->size() * n * (n + 1) / 2);
    runtime::second_derivatives(engine).hessian(t, project, out.back());
  }
  return out;
}

void check_second_order(runtime::Engine& engine, OwnedModel& m, double bound) {
  engine.set_point(m.x);
  EXPECT_NEAR(engine.cost(), reference_cost(m), bound * std::fabs(reference_cost(m)));
  Numbers g(m.x.size()), hp(m.x.size());
  engine.gradient(g);
  EXPECT_LE(relative_difference(g, reference_gradient(m)), bound);
  const Numbers p = direction(m);
  runtime::second_derivatives(engine).hvp(p, hp);
  EXPECT_LE(relative_difference(hp, differences(m, p)), std::max(bound, 1e-9));
  const std::vector<Numbers> plain = hessians(engine, m, false);
  EXPECT_LE(relative_difference(product(m, plain, p), hp), bound);
  const std::vector<Numbers> projected = hessians(engine, m, true);
  for (std::size_t t = 0; t < plain.size(); ++t) {
    SCOPED_TRACE(m.model.terms[t].name);
    expect_projected(plain[t], projected[t], m.model.terms[t].batch->parameter_columns(), bound);
  }
}

}  // namespace topograd::test
