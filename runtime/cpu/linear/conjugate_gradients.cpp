// The loop of conjugate gradients.
#include "conjugate_gradients.hpp"

#include "../../../ir/machine/platform.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::runtime::cpu {
namespace {

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

double norm_of(const ResidualProducts& products, bool in_energy) {
  return std::sqrt(in_energy ? products.rz : products.rr);
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

/// Sweeps over vectors of the host.
template <class T>
class HostSweeps final : public CgSweeps<T> {
 public:
  HostSweeps(Pool& pool, LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
             CgVectors<T>& vectors, T* x, const CgOptions& options)
      : pool_(pool),
        matrix_(matrix),
        preconditioner_(preconditioner),
        options_(options),
        n_(vectors.residual.size()),
        x_(x),
        r_(vectors.residual.data()),
        z_(vectors.preconditioned.data()),
        p_(vectors.direction.data()),
        q_(vectors.product.data()) {}

  ResidualProducts start() override {
    const ResidualProducts products = precondition(
        [&](std::size_t begin, std::size_t end) { std::fill(x_ + begin, x_ + end, T(0)); });
    pool_.for_ranges(n_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
      std::copy(z_ + begin, z_ + end, p_ + begin);
    });
    return products;
  }

  double multiply() override { return matrix_.multiply(p_, q_); }

  ResidualProducts follow(T alpha) override {
    return precondition([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        x_[i] += alpha * p_[i];
        r_[i] -= alpha * q_[i];
      }
    });
  }

  void move(T alpha) override {
    for (std::size_t i = 0; i < n_; ++i) x_[i] += alpha * p_[i];
  }

  void turn(T beta) override {
    pool_.for_ranges(n_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) p_[i] = z_[i] + beta * p_[i];
    });
  }

 private:
  /// Calls update(begin, end) for each range, then computes z = M⁻¹ r, in one sweep.
  template <class Update>
  ResidualProducts precondition(const Update& update) {
    SumRanges::Columns<2> columns = pool_.template collect_ranges<2>(
        preconditioner_.ranges(), 1, [&](std::size_t k, std::size_t) {
          const auto [begin, end] = preconditioner_.range(k);
          update(begin, end);
          preconditioner_.apply(k, r_, z_);
          return products_of(options_.order, r_ + begin, z_ + begin, end - begin);
        });
    if (options_.sums != nullptr) options_.sums->complete(columns);
    const double rr = pairwise_sum(columns[0]), rz = pairwise_sum(columns[1]);
    return ResidualProducts{rr, rz + preconditioner_.correct(r_, z_)};
  }

  Pool& pool_;
  LinearOperator<T>& matrix_;
  HostPreconditioner<T>& preconditioner_;
  const CgOptions& options_;
  std::size_t n_;
  T *x_, *r_, *z_, *p_, *q_;
};

}  // namespace

template <class T>
CgReport conjugate_gradients(CgSweeps<T>& sweeps, const CgOptions& options) {
  const auto norm = [&](const ResidualProducts& of) { return norm_of(of, options.in_energy); };
  ResidualProducts now = sweeps.start();
  const double enough = options.tolerance * norm(now);
  GainTest gains(options.eta);
  const bool shared = options.sums != nullptr && options.sums->is_part();
  CgReport report;
  for (;;) {
    if (!(now.rr > 0 && norm(now) > enough)) {
      report.end = norm(now) <= enough ? CgEnd::converged : CgEnd::breakdown;
      break;
    }
    if (report.iterations >= options.max_iterations) break;
    // With sums of several processes, all of them must decide alike.
    if (!shared && platform::EndableWork::should_end()) break;
    const double curvature = sweeps.multiply();
    ++report.products;
    const Direction direction = direction_of(curvature, options.negative);
    const T alpha = static_cast<T>(now.rz / std::abs(curvature));
    if (direction != Direction::down) {
      if (direction == Direction::along_negative) sweeps.move(alpha);
      report.end = CgEnd::breakdown;
      break;
    }
    const ResidualProducts next = sweeps.follow(alpha);
    ++report.iterations;
    if (gains.enough(now.rz * (now.rz / curvature))) {
      report.end = CgEnd::gained;
      break;
    }
    sweeps.turn(static_cast<T>(next.rz / now.rz));
    now = next;
  }
  return report;
}

template <class T>
CgReport conjugate_gradients(Pool& pool, LinearOperator<T>& matrix,
                             HostPreconditioner<T>& preconditioner, CgVectors<T>& vectors, T* x,
                             const CgOptions& options) {
  vectors.resize(vectors.residual.size());
  HostSweeps<T> sweeps(pool, matrix, preconditioner, vectors, x, options);
  return conjugate_gradients(sweeps, options);
}

template CgReport conjugate_gradients(CgSweeps<double>&, const CgOptions&);
template CgReport conjugate_gradients(Pool&, LinearOperator<float>&, HostPreconditioner<float>&,
                                      CgVectors<float>&, float*, const CgOptions&);
template CgReport conjugate_gradients(Pool&, LinearOperator<double>&, HostPreconditioner<double>&,
                                      CgVectors<double>&, double*, const CgOptions&);

}  // namespace topograd::runtime::cpu
