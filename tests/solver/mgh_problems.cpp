// Small problems of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981, as scalar code.
#include "mgh_problems.hpp"

#include <topograd/frontend/math.hpp>

#include <cmath>
#include <numbers>

namespace topograd::test {
namespace {

void rosenbrock(Problem& p, const Parameters& x) {
  p.add_residual(10.0 * (x[1] - x[0] * x[0]));
  p.add_residual(1.0 - x[0]);
}

void freudenstein_roth(Problem& p, const Parameters& x) {
  p.add_residual(-13.0 + x[0] + ((5.0 - x[1]) * x[1] - 2.0) * x[1]);
  p.add_residual(-29.0 + x[0] + ((x[1] + 1.0) * x[1] - 14.0) * x[1]);
}

void powell_badly_scaled(Problem& p, const Parameters& x) {
  p.add_residual(1e4 * x[0] * x[1] - 1.0);
  p.add_residual(exp(-x[0]) + exp(-x[1]) - 1.0001);
}

void brown_badly_scaled(Problem& p, const Parameters& x) {
  p.add_residual(x[0] - 1e6);
  p.add_residual(x[1] - 2e-6);
  p.add_residual(x[0] * x[1] - 2.0);
}

void beale(Problem& p, const Parameters& x) {
  const double y[] = {1.5, 2.25, 2.625};
  for (int i = 0; i < 3; ++i) p.add_residual(y[i] - x[0] * (1.0 - pow(x[1], i + 1)));
}

void jennrich_sampson(Problem& p, const Parameters& x) {
  for (int i = 1; i <= 10; ++i) {
    p.add_residual(2.0 + 2.0 * i -
                   (exp(static_cast<double>(i) * x[0]) + exp(static_cast<double>(i) * x[1])));
  }
}

void helical_valley(Problem& p, const Parameters& x) {
  const Value theta = atan2(x[1], x[0]) / (2.0 * std::numbers::pi);
  p.add_residual(10.0 * (x[2] - 10.0 * theta));
  p.add_residual(10.0 * (sqrt(x[0] * x[0] + x[1] * x[1]) - 1.0));
  p.add_residual(x[2]);
}

void bard(Problem& p, const Parameters& x) {
  const double y[] = {.14, .18, .22, .25, .29, .32, .35, .39, .37, .58, .73, .96, 1.34, 2.10, 4.39};
  for (int i = 1; i <= 15; ++i) {
    const double u = i, v = 16 - i, w = std::min(u, v);
    p.add_residual(y[i - 1] - (x[0] + u / (v * x[1] + w * x[2])));
  }
}

void gaussian(Problem& p, const Parameters& x) {
  const double y[] = {.0009, .0044, .0175, .0540, .1295, .2420, .3521, .3989};
  for (int i = 1; i <= 15; ++i) {
    const double t = (8.0 - i) / 2;
    const Value d = t - x[2];
    p.add_residual(x[0] * exp(-x[1] * d * d / 2.0) - y[i <= 8 ? i - 1 : 15 - i]);
  }
}

void box_3d(Problem& p, const Parameters& x) {
  for (int i = 1; i <= 10; ++i) {
    const double t = 0.1 * i;
    p.add_residual(exp(-t * x[0]) - exp(-t * x[1]) - x[2] * (std::exp(-t) - std::exp(-10 * t)));
  }
}

void powell_singular(Problem& p, const Parameters& x) {
  p.add_residual(x[0] + 10.0 * x[1]);
  p.add_residual(std::sqrt(5.0) * (x[2] - x[3]));
  const Value a = x[1] - 2.0 * x[2], b = x[0] - x[3];
  p.add_residual(a * a);
  p.add_residual(std::sqrt(10.0) * b * b);
}

void wood(Problem& p, const Parameters& x) {
  p.add_residual(10.0 * (x[1] - x[0] * x[0]));
  p.add_residual(1.0 - x[0]);
  p.add_residual(std::sqrt(90.0) * (x[3] - x[2] * x[2]));
  p.add_residual(1.0 - x[2]);
  p.add_residual(std::sqrt(10.0) * (x[1] + x[3] - 2.0));
  p.add_residual((x[1] - x[3]) / std::sqrt(10.0));
}

void kowalik_osborne(Problem& p, const Parameters& x) {
  const double y[] = {.1957, .1947, .1735, .1600, .0844, .0627, .0456, .0342, .0323, .0235, .0246};
  const double u[] = {4, 2, 1, .5, .25, .167, .125, .1, .0833, .0714, .0625};
  for (int i = 0; i < 11; ++i) {
    p.add_residual(y[i] - x[0] * (u[i] * u[i] + u[i] * x[1]) / (u[i] * u[i] + u[i] * x[2] + x[3]));
  }
}

}  // namespace

const std::vector<MghProblem>& mgh_problems() {
  static const std::vector<MghProblem> table = {
      {"rosenbrock", {-1.2, 1}, 0, rosenbrock},
      // The local minimum to which every descent from the standard start leads.
      {"freudenstein_roth", {0.5, -2}, 48.984254, freudenstein_roth},
      {"powell_badly_scaled", {0, 1}, 0, powell_badly_scaled},
      {"brown_badly_scaled", {1, 1}, 0, brown_badly_scaled},
      {"beale", {1, 1}, 0, beale},
      {"jennrich_sampson", {0.3, 0.4}, 124.362182, jennrich_sampson},
      {"helical_valley", {-1, 0, 0}, 0, helical_valley},
      {"bard", {1, 1, 1}, 8.21487e-3, bard},
      {"gaussian", {0.4, 1, 0}, 1.12793e-8, gaussian},
      {"box_3d", {0, 10, 20}, 0, box_3d},
      {"powell_singular", {3, -1, 0, 1}, 0, powell_singular},
      {"wood", {-3, -1, -3, -1}, 0, wood},
      {"kowalik_osborne", {0.25, 0.39, 0.415, 0.39}, 3.07505e-4, kowalik_osborne},
  };
  return table;
}

}  // namespace topograd::test
