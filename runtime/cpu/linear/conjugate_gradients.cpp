// The loop of conjugate gradients.
#include "conjugate_gradients.hpp"

#include "../../../ir/machine/process_end.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::runtime::cpu {
namespace {

/// r·r and r·z.
struct Products {
  double rr = 0, rz = 0;
};

template <class T>
std::array<double, 2> products_of(SumOrder order, const T* r, const T* z, std::size_t n) {
  if (order == SumOrder::packets) {
    using Vector = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>;
    const Vector residual(r, static_cast<Eigen::Index>(n));
    const Vector preconditioned(z, static_cast<Eigen::Index>(n));
    return {residual.squaredNorm(), residual.dot(preconditioned)};
  }
  std::array<double, 2> sums = {0, 0};
  for (std::size_t i = 0; i < n; ++i) {
    sums[0] += double{r[i]} * double{r[i]};
    sums[1] += double{r[i]} * double{z[i]};
  }
  return sums;
}

double norm_of(const Products& products, bool in_energy) {
  return std::sqrt(in_energy ? products.rz : products.rr);
}

/// The next direction: p = z + beta p.
template <class T>
void turn(const T* z, T beta, T* p, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) p[i] = z[i] + beta * p[i];
}

/// What a direction p leads to.
enum class Direction { down, along_negative, nowhere };

/// By its curvature p·A p.
Direction direction_of(double curvature, NegativeCurvature negative) {
  if (!std::isfinite(curvature)) return Direction::nowhere;
  if (curvature > 0) return Direction::down;
  const bool follows = curvature < 0 && negative == NegativeCurvature::is_followed;
  return follows ? Direction::along_negative : Direction::nowhere;
}

}  // namespace

template <class T>
CgReport conjugate_gradients(Pool& pool, LinearOperator<T>& matrix,
                             HostPreconditioner<T>& preconditioner, CgVectors<T>& vectors, T* x,
                             const CgOptions& options) {
  const std::size_t n = vectors.residual.size();
  vectors.resize(n);
  T *r = vectors.residual.data(), *z = vectors.preconditioned.data(), *p = vectors.direction.data(),
    *q = vectors.product.data();

  // Calls update(begin, end) for each range, then computes z = M⁻¹ r, in one sweep.
  const auto precondition = [&](const auto& update) {
    SumRanges::Columns<2> columns = pool.template collect_ranges<2>(
        preconditioner.ranges(), 1, [&](std::size_t k, std::size_t) {
          const auto [begin, end] = preconditioner.range(k);
          update(begin, end);
          preconditioner.apply(k, r, z);
          return products_of(options.order, r + begin, z + begin, end - begin);
        });
    if (options.sums != nullptr) options.sums->complete(columns);
    const double rr = pairwise_sum(columns[0]), rz = pairwise_sum(columns[1]);
    return Products{rr, rz + preconditioner.correct(r, z)};
  };
  const auto norm = [&](const Products& of) { return norm_of(of, options.in_energy); };
  const auto move = [&](std::size_t begin, std::size_t end, T alpha) {
    for (std::size_t i = begin; i < end; ++i) x[i] += alpha * p[i];
  };

  Products now = precondition(
      [&](std::size_t begin, std::size_t end) { std::fill(x + begin, x + end, T(0)); });
  pool.for_ranges(n, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    std::copy(z + begin, z + end, p + begin);
  });
  const double enough = options.tolerance * norm(now);
  GainTest gains(options.eta);
  CgReport report;
  for (;;) {
    if (!(now.rr > 0 && norm(now) > enough)) {
      report.end = norm(now) <= enough ? CgEnd::converged : CgEnd::breakdown;
      break;
    }
    if (report.iterations >= options.max_iterations) break;
    // With sums of several processes, all of them must decide alike.
    if (options.sums == nullptr && platform::EndableWork::should_end()) break;
    const double curvature = matrix.multiply(p, q);
    ++report.products;
    const Direction direction = direction_of(curvature, options.negative);
    const T alpha = static_cast<T>(now.rz / std::abs(curvature));
    if (direction != Direction::down) {
      if (direction == Direction::along_negative) move(0, n, alpha);
      report.end = CgEnd::breakdown;
      break;
    }
    const Products next = precondition([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
      }
    });
    ++report.iterations;
    if (gains.enough(now.rz * (now.rz / curvature))) {
      report.end = CgEnd::gained;
      break;
    }
    const T beta = static_cast<T>(next.rz / now.rz);
    pool.for_ranges(n, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
      turn(z + begin, beta, p + begin, end - begin);
    });
    now = next;
  }
  return report;
}

template CgReport conjugate_gradients(Pool&, LinearOperator<float>&, HostPreconditioner<float>&,
                                      CgVectors<float>&, float*, const CgOptions&);
template CgReport conjugate_gradients(Pool&, LinearOperator<double>&, HostPreconditioner<double>&,
                                      CgVectors<double>&, double*, const CgOptions&);

}  // namespace topograd::runtime::cpu
