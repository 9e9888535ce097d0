// Construction and application of the coarse part of the two-level preconditioner.
#include "two_level.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace topograd::runtime::cpu {
namespace {

/// Aggregates and entries of one range of work.
constexpr std::size_t kAggregatesPerRange = 8;
constexpr std::size_t kEntriesPerRange = 8192;

/// Relative shift of the coarse matrix's diagonal: vectors may be dependent.
template <class T>
constexpr double kShift = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;
/// Factor and number of further shifts if that is not enough.
constexpr double kMoreShift = 100;
constexpr int kTries = 3;

/// Cholesky's factor in the lower triangle; false if a pivot is not positive. Column by column, so
/// that sums have the same order on every processor: that of Eigen's blocks depends on registers.
bool factorise_by_columns(Eigen::MatrixXd& A) {
  const Eigen::Index n = A.rows();
  for (Eigen::Index k = 0; k < n; ++k) {
    const Eigen::Index rest = n - k - 1;
    const auto row = A.row(k).head(k);
    double pivot = A(k, k);
    if (k > 0) pivot -= row.squaredNorm();
    if (!(pivot > 0)) return false;
    A(k, k) = pivot = std::sqrt(pivot);
    auto below = A.col(k).tail(rest);
    if (k > 0 && rest > 0) below.noalias() -= A.bottomLeftCorner(rest, k) * row.transpose();
    if (rest > 0) below /= pivot;
  }
  return true;
}

bool factorise_in_place(Eigen::MatrixXd& A, Bits bits) {
  if (bits == Bits::portable) return factorise_by_columns(A);
  return Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>>(A).info() == Eigen::Success;
}

}  // namespace

template <class T>
bool TwoLevel<T>::build(Pool& pool, const CoarsePlan& plan, const System& system) {
  for (Column<T>* v : {&direction_, &product_}) {
    if (v->size() != system.scalars) *v = Column<T>(system.scalars);
    std::fill(v->data(), v->data() + system.scalars, T(0));
  }
  fill_vectors(pool, plan, system);
  if (plan.answers) add_answers(pool, plan, system);
  fill_matrix(pool, plan, system);
  return factorise();
}

template <class T>
void TwoLevel<T>::fill_vectors(Pool& pool, const CoarsePlan& plan, const System& system) {
  const std::size_t n = plan.offsets.size();
  if (vectors_.size() != n) vectors_ = Column<T>(n);
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      T value = static_cast<T>(plan.offsets[k]);
      const std::uint32_t from = plan.from[k];
      if (from != CoarsePlan::kNowhere) {
        const T x = system.x[from & ~CoarsePlan::kMinus];
        value += (from & CoarsePlan::kMinus) != 0 ? -x : x;
      }
      vectors_[k] = value;
    }
  });
}

template <class T>
void TwoLevel<T>::expand(Pool& pool, const CoarsePlan& plan, const double* y, T* p) const {
  const std::size_t n = plan.entries(), m = plan.functions;
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      const double* const at = y + plan.homes[e] * m;
      T sum = 0;
      for (std::size_t f = 0; f < m; ++f) sum += static_cast<T>(at[f]) * vectors_[f * n + e];
      p[plan.scalars[e]] = sum;
    }
  });
}

template <class T>
void TwoLevel<T>::add_answers(Pool& pool, const CoarsePlan& plan, const System& system) {
  const std::size_t n = plan.entries(), m = plan.functions, size = plan.unknowns();
  // Vectors of followers are 0 while the products are computed.
  Column<T> answers(m * n);
  for (std::size_t f = 0; f < m; ++f) {
    expand(pool, plan, plan.spread.data() + f * size, direction_.data());
    system.matrix.multiply(direction_.data(), product_.data());
    pool.for_ranges(system.blocks.ranges(), 1, [&](std::size_t k, std::size_t) {
      system.blocks.apply(k, product_.data(), direction_.data());
    });
    for (std::size_t e = 0; e < n; ++e) answers[f * n + e] = -direction_[plan.scalars[e]];
    std::fill(direction_.data(), direction_.data() + system.scalars, T(0));
  }
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      if (plan.follows[e] == 0) continue;
      for (std::size_t h = 0; h < m; ++h) {
        double sum = 0;
        for (std::size_t f = 0; f < m; ++f) {
          sum += plan.gather[f * size + plan.homes[e] * m + h] * double{answers[f * n + e]};
        }
        vectors_[h * n + e] = static_cast<T>(sum);
      }
    }
  });
}

template <class T>
void TwoLevel<T>::restrict_to(const CoarsePlan& plan, std::size_t aggregate, const T* r,
                              double* out) const {
  const std::size_t n = plan.entries();
  for (std::size_t f = 0; f < plan.functions; ++f) {
    double sum = 0;
    for (std::uint32_t e = plan.starts[aggregate]; e < plan.starts[aggregate + 1]; ++e) {
      sum += double{vectors_[f * n + e]} * double{r[plan.scalars[e]]};
    }
    out[f] = sum;
  }
}

template <class T>
void TwoLevel<T>::fill_matrix(Pool& pool, const CoarsePlan& plan, const System& system) {
  const auto m = static_cast<Eigen::Index>(plan.functions);
  const auto size = static_cast<Eigen::Index>(plan.unknowns());
  matrix_ = Eigen::MatrixXd::Zero(size, size);
  std::vector<double> y(plan.unknowns());
  for (std::uint32_t colour = 0; colour < plan.colours; ++colour) {
    const std::uint32_t* const sources = plan.sources.data() + colour * plan.aggregates;
    for (Eigen::Index f = 0; f < m; ++f) {
      for (std::uint32_t g = 0; g < plan.aggregates; ++g) {
        for (Eigen::Index h = 0; h < m; ++h) {
          y[static_cast<std::size_t>(g * m + h)] = plan.colour[g] == colour && h == f ? 1 : 0;
        }
      }
      expand(pool, plan, y.data(), direction_.data());
      system.matrix.multiply(direction_.data(), product_.data());
      pool.for_ranges(
          plan.aggregates, kAggregatesPerRange, [&](std::size_t begin, std::size_t end) {
            for (std::size_t g = begin; g < end; ++g) {
              if (sources[g] == kNoAggregate) continue;
              restrict_to(plan, g, product_.data(),
                          &matrix_(static_cast<Eigen::Index>(g) * m, sources[g] * m + f));
            }
          });
    }
  }
}

template <class T>
bool TwoLevel<T>::factorise() {
  double shift = kShift<T>;
  for (int k = 0; k < kTries; ++k, shift *= kMoreShift) {
    factor_ = matrix_;
    for (Eigen::Index i = 0; i < factor_.rows(); ++i) {
      const double d = matrix_(i, i);
      factor_(i, i) = d > 0 ? d * (1 + shift) : 1;
    }
    if (factorise_in_place(factor_, bits_) && factor_.allFinite()) return true;
  }
  return false;
}

template <class T>
void TwoLevel<T>::transfer(ir::StateRecord& record, const CoarsePlan& plan) {
  if (record.restores()) {
    const Eigen::Index n = plan.unknowns();
    vectors_ = Column<T>(plan.offsets.size());
    matrix_.resize(n, n);
  }
  record.list("coarse vectors", std::span<T>(vectors_));
  record.list("coarse matrix",
              std::span<double>(matrix_.data(), static_cast<std::size_t>(matrix_.size())));
  if (record.restores() && !factorise()) record.refuse("coarse matrix", "is not positive definite");
}

template <class T>
double TwoLevel<T>::add(Pool& pool, const CoarsePlan& plan, const T* r, T* z) {
  const std::size_t n = plan.entries(), m = plan.functions;
  coarse_.resize(static_cast<Eigen::Index>(plan.unknowns()));
  pool.for_ranges(plan.aggregates, kAggregatesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = begin; g < end; ++g) restrict_to(plan, g, r, coarse_.data() + g * m);
  });
  solution_ = coarse_;
  factor_.triangularView<Eigen::Lower>().solveInPlace(solution_);
  factor_.triangularView<Eigen::Lower>().adjoint().solveInPlace(solution_);
  pool.for_ranges(n, kEntriesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      const double* const at = solution_.data() + plan.homes[e] * m;
      T sum = 0;
      for (std::size_t f = 0; f < m; ++f) sum += static_cast<T>(at[f]) * vectors_[f * n + e];
      z[plan.scalars[e]] += sum;
    }
  });
  return coarse_.dot(solution_);
}

template <class T>
std::uint64_t TwoLevel<T>::bytes() const {
  return (vectors_.size() + direction_.size() + product_.size()) * sizeof(T) +
         2 * static_cast<std::uint64_t>(matrix_.size()) * sizeof(double);
}

template class TwoLevel<float>;
template class TwoLevel<double>;

}  // namespace topograd::runtime::cpu
