// A regression with certified parameters: NIST's set Misra1a, with standard deviations.
#include <topograd/topograd.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace tg = topograd;

int main() {
  // Volume and pressure: Misra, D., NIST StRD (1978), https://www.itl.nist.gov/div898/strd/nls/
  const double y[] = {10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02,
                      44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78};
  const double x[] = {77.6,  114.9, 141.1, 190.8, 239.9, 289.0, 332.8,
                      378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0};
  const double certified[] = {2.3894212918e+02, 5.5015643181e-04};
  const double deviation[] = {2.7070075241e+00, 7.2668688436e-06};

  std::vector<double> b = {500, 0.0001};  // the farther of the two starts
  tg::Problem problem;
  tg::Parameters p = problem.add_parameters(b);
  constexpr std::size_t kObservations = std::size(y);
  for (std::size_t k = 0; k < kObservations; ++k)
    problem.add_residual(p[0] * (1.0 - exp(-p[1] * x[k])) - y[k]);

  const tg::Summary summary =
      tg::solve(problem, {.max_iterations = 200, .function_tolerance = 1e-15});
  std::printf("%s\n", summary.brief_report().c_str());

  // The variance of the observations is estimated from the residuals.
  const double variance = 2 * summary.final_cost / (kObservations - b.size());
  const tg::Covariance covariance(problem);
  bool good = true;
  for (std::size_t k = 0; k < b.size(); ++k) {
    const double sigma = std::sqrt(variance * covariance.block({p, k}, {p, k})(0, 0));
    std::printf("b%zu = %.9g ± %.6g, certified %.9g ± %.6g\n", k + 1, b[k], sigma, certified[k],
                deviation[k]);
    good = good && std::abs(b[k] / certified[k] - 1) < 1e-6;
    good = good && std::abs(sigma / deviation[k] - 1) < 1e-4;
  }
  return good ? 0 : 1;
}
