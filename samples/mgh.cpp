// Test functions of Moré, Garbow and Hillstrom (ACM TOMS 7(1), 1981), written as in the paper: from
// their standard starts and from ten times as far, and one with up to a hundred thousand unknowns
// in one kernel.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

namespace tg = topograd;

namespace {

/// A function, its standard start, and the sums of squares at its minima.
struct Function {
  const char* name;
  std::vector<double> start, minima;
  std::function<void(tg::Problem&, const tg::Parameters&)> build;
};

const Function kFunctions[] = {
    {"Rosenbrock",
     {-1.2, 1},
     {0},
     [](tg::Problem& problem, const tg::Parameters& x) {
       problem.add_residual(10.0 * (x[1] - square(x[0])));
       problem.add_residual(1.0 - x[0]);
     }},
    {"Freudenstein-Roth",
     {0.5, -2},
     {0, 48.984254},
     [](tg::Problem& problem, const tg::Parameters& x) {
       problem.add_residual(-13.0 + x[0] + ((5.0 - x[1]) * x[1] - 2.0) * x[1]);
       problem.add_residual(-29.0 + x[0] + ((x[1] + 1.0) * x[1] - 14.0) * x[1]);
     }},
    {"Powell's singular",
     {3, -1, 0, 1},
     {0},
     [](tg::Problem& problem, const tg::Parameters& x) {
       problem.add_residual(x[0] + 10.0 * x[1]);
       problem.add_residual(std::sqrt(5.0) * (x[2] - x[3]));
       problem.add_residual(square(x[1] - 2.0 * x[2]));
       problem.add_residual(std::sqrt(10.0) * square(x[0] - x[3]));
     }},
    {"Kowalik-Osborne",
     {0.25, 0.39, 0.415, 0.39},
     {3.07505e-4, 1.02734e-3},
     [](tg::Problem& problem, const tg::Parameters& x) {
       const double y[] = {0.1957, 0.1947, 0.1735, 0.16,   0.0844, 0.0627,
                           0.0456, 0.0342, 0.0323, 0.0235, 0.0246};
       const double u[] = {4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625};
       for (int i = 0; i < 11; ++i)  // data, not structure: one topology
         problem.add_residual(y[i] - x[0] * (u[i] * u[i] + u[i] * x[1]) /
                                         (u[i] * u[i] + u[i] * x[2] + x[3]));
     }},
    {"Brown-Dennis",
     {25, 5, -5, -1},
     {85822.20163},
     [](tg::Problem& problem, const tg::Parameters& x) {
       for (int i = 1; i <= 20; ++i) {
         const double t = i / 5.0;
         problem.add_residual(square(x[0] + t * x[1] - std::exp(t)) +
                              square(x[2] + std::sin(t) * x[3] - std::cos(t)));
       }
     }},
};

/// True if the cost is that of a published minimum, to four digits.
bool is_solved(double cost, const std::vector<double>& minima) {
  return std::any_of(minima.begin(), minima.end(),
                     [&](double f) { return std::abs(2 * cost - f) <= 1e-4 * (f == 0 ? 1 : f); });
}

/// Solves from a multiple of the standard start.
bool run(const Function& function, double factor) {
  std::vector<double> values = function.start;
  for (double& v : values) v *= factor;
  tg::Problem problem;
  function.build(problem, problem.add_parameters(values));
  const tg::Summary summary = tg::solve(problem, {.max_iterations = 10'000,
                                                  .function_tolerance = 1e-14,
                                                  .gradient_tolerance = 1e-14,
                                                  .parameter_tolerance = 1e-14});
  const bool solved = is_solved(summary.final_cost, function.minima);
  std::printf("%-18s %3.0f x start  sum of squares %-12.6g %5d steps  %s\n", function.name, factor,
              2 * summary.final_cost, summary.num_iterations(), solved ? "solved" : "not solved");
  return solved;
}

/// Rosenbrock's function on every pair of n unknowns.
bool run_extended(std::size_t n) {
  std::vector<double> values(n, 1);
  for (std::size_t k = 0; k < n; k += 2) values[k] = -1.2;
  tg::Problem problem;
  const tg::Parameters x = problem.add_parameters(values, 2);
  const auto pair = [&](const tg::Value& a, const tg::Value& b) {
    return std::vector<tg::Value>{10.0 * (b - square(a)), 1.0 - a};
  };
  for (std::size_t k = 0; k < n / 2; ++k) problem.add_residual(pair(x(k, 0), x(k, 1)));
  const tg::Summary summary = tg::solve(problem, {.max_iterations = 200});
  std::printf("extended Rosenbrock, %zu unknowns, %zu topology: %g after %d steps\n", n,
              problem.topology_count(), 2 * summary.final_cost, summary.num_iterations());
  return is_solved(summary.final_cost, {0}) && problem.topology_count() == 1;
}

}  // namespace

int main() {
  bool good = true;
  for (const Function& function : kFunctions)
    for (const double factor : {1.0, 10.0}) good = run(function, factor) && good;
  return run_extended(100'000) && good ? 0 : 1;
}
