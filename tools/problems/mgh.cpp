// Small problems, and problems of any size, of Moré, Garbow and Hillstrom, ACM TOMS 7(1), 1981.
#include "mgh.hpp"

#include "../../frontend/value/math.hpp"
#include "../../frontend/value/reduce.hpp"
#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace topograd::problems {
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

void meyer(Problem& p, const Parameters& x) {
  const double y[] = {34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744,
                      8261,  7030,  6005,  5147,  4427,  3820,  3307,  2872};
  for (int i = 1; i <= 16; ++i) p.add_residual(x[0] * exp(x[1] / (45.0 + 5 * i + x[2])) - y[i - 1]);
}

// With |y - x2|, which has the published solution (50, 25, 1.5); the paper has a misprint.
void gulf(Problem& p, const Parameters& x) {
  for (int i = 1; i <= 99; ++i) {
    const double t = i / 100.0, y = 25 + std::pow(-50 * std::log(t), 2.0 / 3);
    p.add_residual(exp(-pow(abs(y - x[1]), x[2]) / x[0]) - t);
  }
}

void brown_dennis(Problem& p, const Parameters& x) {
  for (int i = 1; i <= 20; ++i) {
    const double t = i / 5.0;
    const Value a = x[0] + t * x[1] - std::exp(t), b = x[2] + x[3] * std::sin(t) - std::cos(t);
    p.add_residual(a * a + b * b);
  }
}

void osborne_1(Problem& p, const Parameters& x) {
  const double y[] = {.844, .908, .932, .936, .925, .908, .881, .850, .818, .784, .751,
                      .718, .685, .658, .628, .603, .580, .558, .538, .522, .506, .490,
                      .478, .467, .457, .448, .438, .431, .424, .420, .414, .411, .406};
  for (int i = 0; i < 33; ++i) {
    const double t = 10.0 * i;
    p.add_residual(y[i] - (x[0] + x[1] * exp(-t * x[3]) + x[2] * exp(-t * x[4])));
  }
}

void biggs_exp6(Problem& p, const Parameters& x) {
  for (int i = 1; i <= 13; ++i) {
    const double t = 0.1 * i;
    const double y = std::exp(-t) - 5 * std::exp(-10 * t) + 3 * std::exp(-4 * t);
    p.add_residual(x[2] * exp(-t * x[0]) - x[3] * exp(-t * x[1]) + x[5] * exp(-t * x[4]) - y);
  }
}

void osborne_2(Problem& p, const Parameters& x) {
  const double y[] = {1.366, 1.191, 1.112, 1.013, .991, .885, .831, .847, .786, .725, .746,
                      .679,  .608,  .655,  .616,  .606, .602, .626, .651, .724, .649, .649,
                      .694,  .644,  .624,  .661,  .612, .558, .533, .495, .500, .423, .395,
                      .375,  .372,  .391,  .396,  .405, .428, .429, .523, .562, .607, .653,
                      .672,  .708,  .633,  .668,  .645, .632, .591, .559, .597, .625, .739,
                      .710,  .729,  .720,  .636,  .581, .428, .292, .162, .098, .054};
  for (int i = 0; i < 65; ++i) {
    const double t = 0.1 * i;
    Value sum = x[0] * exp(-t * x[4]);
    for (std::size_t k = 1; k <= 3; ++k) {
      const Value d = t - x[7 + k];
      sum += x[k] * exp(-d * d * x[4 + k]);
    }
    p.add_residual(y[i] - sum);
  }
}

}  // namespace

const std::vector<MghProblem>& mgh_problems() {
  static const std::vector<MghProblem> kTable = {
      {"rosenbrock", {-1.2, 1}, {0}, rosenbrock},
      {"freudenstein_roth", {0.5, -2}, {0, 48.984254}, freudenstein_roth},
      {"powell_badly_scaled", {0, 1}, {0}, powell_badly_scaled},
      {"brown_badly_scaled", {1, 1}, {0}, brown_badly_scaled},
      {"beale", {1, 1}, {0}, beale},
      {"jennrich_sampson", {0.3, 0.4}, {124.362182}, jennrich_sampson},
      {"helical_valley", {-1, 0, 0}, {0}, helical_valley},
      {"bard", {1, 1, 1}, {8.21487e-3}, bard},
      {"gaussian", {0.4, 1, 0}, {1.12793e-8}, gaussian},
      {"meyer", {0.02, 4000, 250}, {87.9458}, meyer},
      {"gulf", {5, 2.5, 0.15}, {0}, gulf},
      {"box_3d", {0, 10, 20}, {0}, box_3d},
      {"powell_singular", {3, -1, 0, 1}, {0}, powell_singular},
      {"wood", {-3, -1, -3, -1}, {0}, wood},
      {"kowalik_osborne", {0.25, 0.39, 0.415, 0.39}, {3.07505e-4}, kowalik_osborne},
      {"brown_dennis", {25, 5, -5, -1}, {85822.20163}, brown_dennis},
      {"osborne_1", {0.5, 1.5, -1, 0.01, 0.02}, {5.46489e-5}, osborne_1},
      {"biggs_exp6", {1, 2, 1, 1, 1, 1}, {0}, biggs_exp6},
      {"osborne_2", {1.3, .65, .65, .7, .6, 3, 5, 7, 2, 4.5, 5.5}, {4.01377e-2}, osborne_2},
  };
  return kTable;
}

std::unique_ptr<Mgh> mgh(const MghProblem& row, double factor) {
  auto out = std::make_unique<Mgh>();
  for (const double x : row.start) out->x.push_back(factor * x);
  row.build(out->problem, out->problem.add_parameters(out->x, 1, "x"));
  return out;
}

double mgh_digits(double cost, const std::vector<double>& minima) {
  constexpr double kMost = 15;
  double digits = 0;
  for (const double minimum : minima) {
    const double error = std::abs(2 * cost - minimum) / (minimum == 0 ? 1 : minimum);
    // Written so that NaN counts as no digits.
    if (error < 1) digits = std::max(digits, std::min(kMost, -std::log10(error)));
  }
  return digits;
}

bool is_mgh_minimum(double cost, const std::vector<double>& minima) {
  constexpr double kDigits = 4;
  return mgh_digits(cost, minima) >= kDigits;
}

namespace {

constexpr std::uint32_t kLargest = 100'000'000;
constexpr std::uint32_t kLargestDense = 1'000;  // one row reads all unknowns

void extended_rosenbrock(Mgh& out, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) out.x.push_back(i % 2 == 0 ? -1.2 : 1);
  const Parameters x = out.problem.add_parameters(out.x, 2, "x");
  for (std::uint32_t i = 0; i < n / 2; ++i) {
    const Value a = x(i, 0), b = x(i, 1);
    out.problem.add_residual({literal(10) * (b - a * a), literal(1) - a});
  }
}

void extended_powell(Mgh& out, std::uint32_t n) {
  constexpr std::array kStart = {3.0, -1.0, 0.0, 1.0};
  for (std::uint32_t i = 0; i < n; ++i) out.x.push_back(kStart[i % 4]);
  const Parameters x = out.problem.add_parameters(out.x, 4, "x");
  for (std::uint32_t i = 0; i < n / 4; ++i) {
    const Value a = x(i, 0), b = x(i, 1), c = x(i, 2), d = x(i, 3);
    const Value u = b - literal(2) * c, v = a - d;
    out.problem.add_residual({a + literal(10) * b, literal(std::sqrt(5.0)) * (c - d), u * u,
                              literal(std::sqrt(10.0)) * (v * v)});
  }
}

/// Unknowns 0 .. n − 1 between constant zeros; x[before + i] is unknown i.
Parameters framed(Mgh& out, std::vector<double> start, std::uint32_t before, std::uint32_t after) {
  out.x.assign(before, 0);
  out.x.insert(out.x.end(), start.begin(), start.end());
  out.x.insert(out.x.end(), after, 0);
  const Parameters x = out.problem.add_parameters(out.x, 1, "x");
  const auto size = static_cast<std::uint32_t>(out.x.size());
  for (std::uint32_t k = 0; k < before; ++k) out.problem.set_constant(x, k);
  for (std::uint32_t k = size - after; k < size; ++k) out.problem.set_constant(x, k);
  return x;
}

void broyden_tridiagonal(Mgh& out, std::uint32_t n) {
  const Parameters x = framed(out, std::vector<double>(n, -1), 1, 1);
  for (std::uint32_t i = 1; i <= n; ++i) {
    const Value a = x[i];
    out.problem.add_residual((literal(3) - literal(2) * a) * a - x[i - 1] - literal(2) * x[i + 1] +
                             literal(1));
  }
}

void broyden_banded(Mgh& out, std::uint32_t n) {
  constexpr std::uint32_t kBelow = 5;
  const Parameters x = framed(out, std::vector<double>(n, -1), kBelow, 1);
  for (std::uint32_t i = kBelow; i < n + kBelow; ++i) {
    const Value a = x[i];
    Value row = a * (literal(2) + literal(5) * (a * a)) + literal(1);
    for (std::uint32_t j = i - kBelow; j <= i + 1; ++j) {
      if (j == i) continue;
      const Value b = x[j];
      row -= b * (literal(1) + b);
    }
    out.problem.add_residual(row);
  }
}

void discrete_boundary(Mgh& out, std::uint32_t n) {
  const double h = 1.0 / (n + 1.0);
  std::vector<double> start;
  for (std::uint32_t i = 1; i <= n; ++i) start.push_back(i * h * (i * h - 1));
  const Parameters x = framed(out, std::move(start), 1, 1);
  for (std::uint32_t i = 1; i <= n; ++i) {
    const Value s = x[i] + Value(i * h + 1);
    out.problem.add_residual(literal(2) * x[i] - x[i - 1] - x[i + 1] +
                             literal(h * h / 2) * (s * s * s));
  }
}

void variably_dimensioned(Mgh& out, std::uint32_t n) {
  for (std::uint32_t i = 1; i <= n; ++i) out.x.push_back(1 - static_cast<double>(i) / n);
  const Parameters x = out.problem.add_parameters(out.x, 1, "x");
  std::vector<Value> terms;
  for (std::uint32_t i = 0; i < n; ++i) {
    out.problem.add_residual(x[i] - literal(1));
    terms.push_back(literal(i + 1.0) * (x[i] - literal(1)));
  }
  const Value sum = topograd::sum(terms);
  out.problem.add_residual({sum, sum * sum});
}

struct Row {
  std::string name;
  void (*build)(Mgh&, std::uint32_t);
  std::uint32_t largest;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kTable = {
      {"extended_rosenbrock", extended_rosenbrock, kLargest},
      {"extended_powell", extended_powell, kLargest},
      {"broyden_tridiagonal", broyden_tridiagonal, kLargest},
      {"broyden_banded", broyden_banded, kLargest},
      {"discrete_boundary", discrete_boundary, kLargest},
      {"variably_dimensioned", variably_dimensioned, kLargestDense},
  };
  return kTable;
}

const Row& row_of(const std::string& name) {
  const auto found = std::ranges::find(rows(), name, &Row::name);
  if (found != rows().end()) return *found;
  throw Error(ErrorCode::InvalidArgument, "mgh: there is no large problem \"" + name + "\"");
}

}  // namespace

const std::vector<std::string>& large_mgh_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> out;
    for (const Row& row : rows()) out.push_back(row.name);
    return out;
  }();
  return kNames;
}

std::uint32_t largest_mgh(const std::string& name) { return row_of(name).largest; }

std::unique_ptr<Mgh> large_mgh(const std::string& name, std::uint32_t count) {
  const Row& row = row_of(name);
  if (count < 4 || count % 4 != 0 || count > row.largest) {
    throw Error(ErrorCode::InvalidArgument,
                "mgh: expected a --count for " + name + " that is a multiple of 4 in 4 .. " +
                    std::to_string(row.largest) + ", got " + std::to_string(count));
  }
  auto out = std::make_unique<Mgh>();
  row.build(*out, count);
  return out;
}

}  // namespace topograd::problems
