// Least eigenvalues by Jacobi's rotations, searches along directions and beside a point.
#include "negative_curvature.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

// Share of the largest entry of a row, in units of rounding, above which an eigenvalue is not zero.
constexpr double kLeastCurvature = 64;
// Sweeps over rows that settle their units, each of which halves the digits that are off, and
// sweeps of rotations, of which fewer than ten are needed.
constexpr int kUnitSweeps = 40, kRotationSweeps = 30;
constexpr int kMostDoublings = 100;
// Square that is left of a column of norm 1 that depends on others.
constexpr double kLeastPivot = 1e-12;

/// u with max_j u_i |H_ij| u_j = 1 in each row that is not zero; 0 in the others.
Eigen::VectorXd row_units(const Eigen::MatrixXd& hessian) {
  const Eigen::Index n = hessian.rows();
  Eigen::VectorXd units = Eigen::VectorXd::Ones(n), next(n);
  for (int sweep = 0; sweep < kUnitSweeps; ++sweep) {
    for (Eigen::Index i = 0; i < n; ++i) {
      double largest = 0;
      for (Eigen::Index j = 0; j < n; ++j)
        largest = std::max(largest, units[i] * std::abs(hessian(i, j)) * units[j]);
      next[i] = largest > 0 ? units[i] / std::sqrt(largest) : 0;
    }
    units = next;
  }
  return units;
}

/// Makes a symmetric matrix diagonal by Jacobi's rotations; returns the eigenvectors as columns.
Eigen::MatrixXd diagonalise(Eigen::MatrixXd& a) {
  const Eigen::Index n = a.rows();
  Eigen::MatrixXd vectors = Eigen::MatrixXd::Identity(n, n);
  // The rows or columns p and q of m, turned.
  const auto turn = [n](Eigen::MatrixXd& m, bool rows, Eigen::Index p, Eigen::Index q, double c,
                        double s) {
    for (Eigen::Index k = 0; k < n; ++k) {
      double& first = rows ? m(p, k) : m(k, p);
      double& second = rows ? m(q, k) : m(k, q);
      const double before = first;
      first = c * before - s * second;
      second = s * before + c * second;
    }
  };
  for (int sweep = 0; sweep < kRotationSweeps; ++sweep) {
    bool settled = true;
    for (Eigen::Index p = 0; p < n; ++p) {
      for (Eigen::Index q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= std::numeric_limits<double>::epsilon()) continue;
        settled = false;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = std::copysign(1 / (std::abs(theta) + std::sqrt(theta * theta + 1)), theta);
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        turn(a, true, p, q, c, s);
        turn(a, false, p, q, c, s);
        turn(vectors, false, p, q, c, s);
      }
    }
    if (settled) break;
  }
  return vectors;
}

/// The least eigenvalue of H, whose largest entry is about 1, and its direction.
NegativeCurvature least_eigenvalue(Eigen::MatrixXd hessian) {
  const Eigen::MatrixXd vectors = diagonalise(hessian);
  Eigen::Index least = 0;
  for (Eigen::Index k = 1; k < hessian.rows(); ++k)
    if (hessian(k, k) < hessian(least, least)) least = k;
  return {.direction = vectors.col(least), .curvature = hessian(least, least)};
}

void turn_down(NegativeCurvature& way, const Eigen::VectorXd& gradient) {
  double slope = 0;
  for (Eigen::Index k = 0; k < gradient.size(); ++k) slope += way.direction[k] * gradient[k];
  if (slope > 0) way.direction = -way.direction;
}

}  // namespace

std::optional<NegativeCurvature> negative_curvature(const QuadraticModel& at, double unit) {
  if (!at.hessian.allFinite() || at.hessian.rows() == 0) return std::nullopt;
  const Eigen::VectorXd units = row_units(at.hessian);
  if (!units.allFinite()) return std::nullopt;
  NegativeCurvature out = least_eigenvalue(units.asDiagonal() * at.hessian * units.asDiagonal());
  if (!(out.curvature < -kLeastCurvature * static_cast<double>(units.size()) * unit))
    return std::nullopt;
  out.direction = units.cwiseProduct(out.direction);
  double columns = 0;
  for (Eigen::Index k = 0; k < out.direction.size(); ++k)
    columns += std::abs(out.direction[k]) * std::sqrt(at.squares[k]);
  const double explained =
      at.normal.size() > 0 ? out.direction.dot(at.normal * out.direction) : columns * columns;
  if (explained > -out.curvature) return std::nullopt;
  turn_down(out, at.gradient);
  return out;
}

std::optional<NegativeCurvature> least_curvature(const Eigen::MatrixXd& hessian,
                                                 const Eigen::VectorXd& gradient, double bound) {
  const double largest = hessian.size() > 0 ? hessian.cwiseAbs().maxCoeff() : 0;
  if (!(largest > 0) || !std::isfinite(largest)) return std::nullopt;
  NegativeCurvature out = least_eigenvalue(hessian / largest);
  out.curvature *= largest;
  if (!(out.curvature < bound)) return std::nullopt;
  turn_down(out, gradient);
  return out;
}

bool has_dependent_columns(Eigen::MatrixXd normal) {
  for (Eigen::Index k = 0; k < normal.rows(); ++k)
    if (normal(k, k) == 0) normal(k, k) = 1;
  const Eigen::VectorXd units = normal.diagonal().cwiseSqrt().cwiseInverse();
  return !factor_in_units(normal, units, kLeastPivot);
}

SaddleSearch::SaddleSearch(double cost, double curvature, double least)
    : start_(cost),
      first_(std::sqrt(2 * least / -curvature)),
      length_(first_),
      last_(cost),
      best_cost_(cost - least) {}

void SaddleSearch::judge(double cost) {
  if (cost < best_cost_) {
    best_cost_ = cost;
    best_ = length_;
  }
  if (cost < last_ && ++doublings_ < kMostDoublings) {
    last_ = cost;
    length_ *= 2;
  } else if (length_ > 0) {
    length_ = -first_;
    last_ = start_;
    doublings_ = 0;
  } else {
    length_ = 0;
  }
}

namespace {

// Share of the cost by which a step changes it, and the exponent of the longest one.
constexpr double kBeside = 1e-4;
constexpr int kLongest = 1000;
// Change of the residuals by a column along such a step, as a share of them, that explains it.
constexpr double kExplained = 1e-2 * kBeside;
// Lengths that are tried, in units of the one that changes the cost.
constexpr std::array<double, 9> kLengths = {0x1p12, 0x1p9,  0x1p6,  0x1p3,  1,
                                            0x1p-2, 0x1p-4, 0x1p-7, 0x1p-10};

/// The search for a power of two from which on a step to one side changes the cost.
struct Side {
  std::uint32_t unknown;
  double sign;
  int low = -kLongest, high = kLongest;  // no change, and a change

  double length(int exponent) const { return sign * std::ldexp(1.0, exponent); }
  int middle() const { return (low + high) / 2; }
  bool is_open() const { return high - low > 1; }
};

bool changes(const BesideUnknown& unknown, double cost) {
  return !(std::abs(cost - unknown.cost) <= kBeside * unknown.cost);
}

/// Asks for the costs at steps of some sides.
template <class Length>
std::vector<double> ask(const CostsBeside& costs, std::span<const Side> sides,
                        const Length& length) {
  std::vector<BesideProbe> probes;
  probes.reserve(sides.size());
  for (const Side& side : sides) probes.push_back({side.unknown, length(side)});
  return probes.empty() ? std::vector<double>() : costs(probes);
}

/// Sides to which the cost changes, with the length from which on it does.
std::vector<Side> find_lengths(std::span<const BesideUnknown> unknowns, const CostsBeside& costs) {
  std::vector<Side> sides, far;
  for (std::uint32_t k = 0; k < unknowns.size(); ++k)
    for (const double sign : {1.0, -1.0})
      if (unknowns[k].cost > 0) far.push_back({k, sign});
  const std::vector<double> there =
      ask(costs, far, [](const Side& side) { return side.length(kLongest); });
  for (std::size_t i = 0; i < far.size(); ++i)
    if (changes(unknowns[far[i].unknown], there[i])) sides.push_back(far[i]);
  // All intervals are equally long.
  while (!sides.empty() && sides.front().is_open()) {
    const std::vector<double> cost =
        ask(costs, sides, [](const Side& side) { return side.length(side.middle()); });
    for (std::size_t i = 0; i < sides.size(); ++i) {
      Side& side = sides[i];
      (changes(unknowns[side.unknown], cost[i]) ? side.high : side.low) = side.middle();
    }
  }
  return sides;
}

}  // namespace

std::vector<BesideStep> steps_beside(std::span<const BesideUnknown> unknowns,
                                     const CostsBeside& costs) {
  std::vector<BesideProbe> probes;
  for (const Side& side : find_lengths(unknowns, costs)) {
    const BesideUnknown& unknown = unknowns[side.unknown];
    const double length = side.length(side.high);
    if (unknown.column * std::abs(length) > kExplained * std::sqrt(2 * unknown.cost)) continue;
    for (const double part : kLengths) probes.push_back({side.unknown, part * length});
  }
  const std::vector<double> there = probes.empty() ? std::vector<double>() : costs(probes);
  std::vector<BesideStep> out(unknowns.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const BesideUnknown& unknown = unknowns[probes[i].unknown];
    BesideStep& best = out[probes[i].unknown];
    const double gain = unknown.cost - there[i];
    if (gain > unknown.least && gain > best.gain) best = {probes[i].step, gain};
  }
  return out;
}

}  // namespace topograd
