// Points for the checks of ops.
#include "ops.hpp"

#include "../../../ir/checking/random_program.hpp"

#include <cmath>
#include <limits>

namespace topograd::check {
namespace {

constexpr double kLargestAngle = 1e9;

/// Special values, ends of the domain, integers and half-integers, with their neighbours.
template <class T>
std::vector<double> special_operands(ir::Op op) {
  std::vector<double> all = ir::special_values();
  const ir::Domain& domain = ir::info(op).domain;
  const T infinity = std::numeric_limits<T>::infinity();
  for (const double end : {domain.min, domain.max, 1.0, -1.0, 0.5, 2.0}) {
    if (!std::isfinite(end)) continue;
    const T at = static_cast<T>(end);
    all.insert(all.end(), {std::nextafter(at, -infinity), end, std::nextafter(at, infinity)});
  }
  for (const T x : {std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min(),
                    std::numeric_limits<T>::max(), std::numeric_limits<T>::epsilon()}) {
    all.insert(all.end(), {x, -x});
  }
  return all;
}

/// A shorter list for three operands, because all triples of the longer list would be too many.
std::vector<double> few_operands() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {0.0,  -0.0,  1,     -1,         0.5,       -0.5,  2,     3,   -0.7,
          1e30, -1e30, 1e-40, -kInfinity, kInfinity, 1e300, 1e-30, 0.1, std::nan("")};
}

template <class T>
double random_operand(ir::Op op, bool first, Random& random) {
  const ir::Domain& domain = ir::info(op).domain;
  switch (random.below(4)) {
    case 0: {  // all magnitudes
      constexpr int kLowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
      const double exponent = random.between(kLowest, std::numeric_limits<T>::max_exponent);
      const double size = std::exp2(exponent - 1) * random.between(1, 2);
      return random.below(2) == 0 ? size : -size;
    }
    case 1: return random.between(-kLargestAngle, kLargestAngle);
    default: {
      const bool bounded = first && std::isfinite(domain.min) && std::isfinite(domain.max);
      if (bounded) return random.between(domain.min, domain.max);
      const double x = random.between(-8, 8);
      return first && std::isfinite(domain.min) ? domain.min + std::fabs(x) : x;
    }
  }
}

template <class T>
runtime::Columns points(ir::Op op, std::uint64_t count, std::uint64_t seed) {
  runtime::Columns columns(3);
  const auto append = [&](double a, double b, double c) {
    columns[0].push_back(static_cast<T>(a));
    columns[1].push_back(static_cast<T>(b));
    columns[2].push_back(static_cast<T>(c));
  };
  const int arity = ir::arity(op);
  const std::vector<double> none = {0};
  const std::vector<double> values = arity < 3 ? special_operands<T>(op) : few_operands();
  for (const double a : values) {
    for (const double b : arity > 1 ? values : none) {
      for (const double c : arity > 2 ? values : none) append(a, b, c);
    }
  }
  Random random(seed * 1000 + static_cast<std::uint64_t>(op));
  for (std::uint64_t k = 0; k < count; ++k) {
    const double a = random_operand<T>(op, true, random);
    const double b = random_operand<T>(op, false, random);
    append(a, b, random_operand<T>(op, false, random));
  }
  return columns;
}

}  // namespace

runtime::Columns op_points(ir::Op op, Precision precision, std::uint64_t count,
                           std::uint64_t seed) {
  return precision == Precision::f32 ? points<float>(op, count, seed)
                                     : points<double>(op, count, seed);
}

}  // namespace topograd::check
