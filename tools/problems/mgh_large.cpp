// The problems of variable size of Moré, Garbow and Hillstrom.
#include "mgh_large.hpp"

#include "../../frontend/value/math.hpp"
#include "../../frontend/value/reduce.hpp"
#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::problems {
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
