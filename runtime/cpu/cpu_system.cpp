// Jacobian, damping and conjugate gradients of one point.
#include "cpu_system.hpp"

#include "../../ir/machine/stopwatch.hpp"
#include "../engine/column_scaling.hpp"
#include "../profile.hpp"
#include "tiles/column.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

namespace topograd::runtime::cpu {

template <class T>
void CpuSystem<T>::follow(const Model& model, bool moved) {
  if (moved) {
    for (Column<T>* v : {&gradient_, &delta_}) {
      *v = Column<T>(terms_.scalars());
      terms_.zero(*v);
    }
    blocks_ = Column<T>(terms_.layout().packed_scalars());
    diagonal_ = Column<T>(terms_.scalars());
    scale_ = Column<T>(terms_.scalars());
    damping_ = Column<T>(terms_.scalars());
    scaled_ = false;
  }
  follow_terms();
  manifolds_.follow(model, terms_.layout(), terms_.bits());
  ambient_ = Column<T>(manifolds_.empty() ? 0 : terms_.scalars());
  held_ = always_held();
  preconditioner_->follow(model);
}

template <class T>
std::vector<std::uint8_t> CpuSystem<T>::always_held() const {
  std::vector<std::uint8_t> held = terms_.constant();
  if (manifolds_.empty()) return held;
  held.resize(terms_.scalars());
  manifolds_.hold_rest(held);
  return held;
}

// Terms that are still there keep their columns.
template <class T>
void CpuSystem<T>::follow_terms() {
  std::map<const TermState<T>*, LinearTerm<T>> old;
  for (LinearTerm<T>& term : linear_) old.emplace(term.term(), std::move(term));
  linear_.clear();
  for (const auto& term : terms_.all()) {
    if (term->energy()) continue;
    const auto known = old.find(term.get());
    linear_.push_back(known == old.end() ? LinearTerm<T>(term) : std::move(known->second));
  }
}

template <class T>
void CpuSystem<T>::begin_solve() {
  scaled_ = false;
  preconditioner_->begin_solve();
}

template <class T>
void CpuSystem<T>::transfer(ir::StateRecord& record) {
  record.value("columns scaled", scaled_);
  if (scaled_) record.by_unknown("column scaling", std::span<T>(scale_));
  preconditioner_->transfer(record);
}

template <class T>
void CpuSystem<T>::store_jacobian(const Column<T>& x) {
  blocks_current_ = diagonal_current_ = false;
  for (LinearTerm<T>& term : linear_) {
    term.linearize(terms_.pool(), terms_.workers(), terms_.vectors(x));
    ++terms_.stats().kernels_on_cpu;
  }
  manifolds_.find_bases(terms_.pool(), terms_.workers(), x.data());
}

template <class T>
void CpuSystem<T>::add_residual_square(const Column<T>& x, CostSum& cost) {
  for (const LinearTerm<T>& term : linear_) {
    term.add_residual_square(terms_.pool(), terms_.workers(), terms_.vectors(x), terms_.layout(),
                             cost);
    if (term.term()->term().loss != nullptr) ++terms_.stats().kernels_on_cpu;
  }
}

template <class T>
const LinearTerm<T>* CpuSystem<T>::linear(const TermState<T>& term) const {
  const auto found = std::ranges::find(linear_, &term, &LinearTerm<T>::term);
  return found == linear_.end() ? nullptr : &*found;
}

template <class T>
void CpuSystem<T>::sum_gradient() {
  terms_.zero(gradient_);
  for (const LinearTerm<T>& term : linear_)
    term.add_gradient(terms_.pool(), terms_.layout(), gradient_.data());
  terms_.mask(gradient_, terms_.constant());
  manifolds_.contract(terms_.pool(), gradient_.data());
}

template <class T>
const Column<T>& CpuSystem<T>::blocks() {
  if (std::exchange(blocks_current_, true)) return blocks_;
  terms_.zero(blocks_);
  for (const LinearTerm<T>& term : linear_)
    term.add_blocks(terms_.pool(), terms_.layout(), blocks_.data());
  manifolds_.contract_blocks(terms_.pool(), blocks_.data());
  return blocks_;
}

template <class T>
const Column<T>& CpuSystem<T>::diagonal() {
  if (std::exchange(diagonal_current_, true)) return diagonal_;
  if (needs_blocks_ || !manifolds_.empty()) {
    const Column<T>& all = blocks();
    const BlockLayout& layout = terms_.layout();
    terms_.pool().for_ranges(
        layout.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
          layout.for_diagonal(begin, end, [&](std::uint64_t scalar, std::uint64_t packed) {
            diagonal_[scalar] = all[packed];
          });
        });
    return diagonal_;
  }
  terms_.zero(diagonal_);
  for (const LinearTerm<T>& term : linear_)
    term.add_diagonal(terms_.pool(), terms_.layout(), diagonal_.data());
  return diagonal_;
}

template <class T>
void CpuSystem<T>::hold(std::vector<std::uint8_t> held) {
  held_ = std::move(held);
  manifolds_.hold_rest(held_);
  terms_.mask(gradient_, held_);
}

template <class T>
void CpuSystem<T>::set_gradient(std::span<const double> g) {
  terms_.read(g, gradient_);
  terms_.mask(gradient_, held_);
}

template <class T>
void CpuSystem<T>::set_delta(std::span<const double> delta) {
  needs_blocks_ = false;
  terms_.read(delta, delta_);
  manifolds_.contract(terms_.pool(), delta_.data());
  terms_.mask(delta_, held_);
  terms_.sums().fill_ghosts(
      delta_.data());  // whether a bound holds them, the part that owns them knows
}

template <class T>
double CpuSystem<T>::gradient_times_delta() const {
  const SumRanges& sums = terms_.sums();
  return sums.sum(terms_.pool(), sums.of_scalars(), [&](const SumRanges::Range& range) {
    double sum = 0;
    for (std::size_t i = range.first; i < range.end; ++i)
      sum += double{gradient_[i]} * double{delta_[i]};
    return sum;
  });
}

template <class T>
void CpuSystem<T>::set_scale(const StepRequest& request) {
  if (scaled_ && !request.scale_free) return;
  const double unit = request.scale_free ? 0 : 1;
  const bool later = scaled_;
  const Column<T>& diagonal = this->diagonal();
  terms_.pool().for_ranges(terms_.scalars(), kScalarsPerRange,
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i) {
                               const double s = column_scale(unit, std::sqrt(double{diagonal[i]}));
                               const T squared = static_cast<T>(s * s);
                               scale_[i] = later ? first_scale(scale_[i], squared) : squared;
                             }
                           });
  scaled_ = true;
}

template <class T>
void CpuSystem<T>::set_damping(const StepRequest& request) {
  set_scale(request);
  const Column<T>& diagonal = this->diagonal();
  terms_.pool().for_ranges(
      terms_.scalars(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const double squared = request.jacobi_scaling ? double{scale_[i]} : 1.0;
          damping_[i] = column_damping(diagonal[i], squared, request);
        }
      });
}

template <class T>
const T* CpuSystem<T>::expanded(const T* v) {
  if (manifolds_.empty()) return v;
  std::copy_n(v, terms_.scalars(), ambient_.data());
  manifolds_.expand(terms_.pool(), v, ambient_.data());
  return ambient_.data();
}

// q = (JᵀJ + damping) p; returns p·q. p is zero at fixed scalars, and q is set to zero there.
template <class T>
template <class Damping>
double CpuSystem<T>::multiply(const Damping& damping, const T* p, T* q) {
  Pool& pool = terms_.pool();
  const SumRanges& sums = terms_.sums();
  const std::uint64_t scalars = terms_.scalars();
  sums.fill_ghosts(const_cast<T*>(p));  // the caller leaves them to the product
  pool.for_ranges(scalars, kScalarsPerRange,
                  [&](std::size_t begin, std::size_t end) { std::fill(q + begin, q + end, T(0)); });
  const T* const direction = expanded(p);
  for (LinearTerm<T>& term : linear_)
    term.add_jtjp(pool, terms_.workers(), terms_.along(direction), terms_.layout(), scalars,
                  sums.by_chunk(), q);
  manifolds_.contract(pool, q);
  return sums.sum(pool, sums.of_scalars(), [&](const SumRanges::Range& range) {
    double sum = 0;
    for (std::size_t i = range.first; i < range.end; ++i) {
      q[i] += damping(i) * p[i];
      if (!held_.empty() && held_[i] != 0) q[i] = 0;
      sum += double{p[i]} * double{q[i]};
    }
    return sum;
  });
}

template <class T>
int CpuSystem<T>::iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
                          const CgOptions& options) {
  Pool& pool = terms_.pool();
  cg_.resize(terms_.scalars());
  if (terms_.sums().is_part()) {  // conjugate gradients set no ghosts
    for (Column<T>* v : {&cg_.preconditioned, &cg_.direction, &delta_}) terms_.zero(*v);
  }
  pool.for_ranges(terms_.scalars(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) cg_.residual[i] = -gradient_[i];
  });
  if constexpr (std::is_same_v<T, double>) {
    if (krylov_ != nullptr)
      return krylov_
          ->solve(matrix, preconditioner, {cg_.residual.data(), cg_.residual.size()},
                  {delta_.data(), delta_.size()}, options)
          .iterations;
  }
  return conjugate_gradients(pool, matrix, preconditioner, cg_, delta_.data(), options).iterations;
}

template <class T>
typename CpuSystem<T>::Solved CpuSystem<T>::solve(const Column<T>& x, const StepRequest& request) {
  const TimedPass timed(TimedWork::cpu, "conjugate_gradients");
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  needs_blocks_ = true;
  set_damping(request);
  auto matrix = product_by<T>(
      [&](const T* p, T* q) { return multiply([&](std::size_t i) { return damping_[i]; }, p, q); });
  {
    const TimedPass building(TimedWork::cpu, "preconditioner");
    preconditioner_->build(terms_.pool(), {terms_.layout(), terms_.sums(), x.data(),
                                           blocks().data(), damping_.data(), held_, matrix});
  }
  const CgOptions options{.tolerance = request.linear_tolerance,
                          .in_energy = request.energy_norm || preconditioner_->is_norm(),
                          .max_iterations = request.max_linear_iterations,
                          .eta = request.eta,
                          .sums = &terms_.sums()};
  Solved solved{.iterations = iterate(matrix, *preconditioner_, options)};
  preconditioner_->solved(solved.iterations);
  terms_.sums().fill_ghosts(delta_.data());
  solved.slope = gradient_times_delta();
  if (terms_.sums().is_mixed()) {
    solved.model_decrease = -solved.slope - image_square_by_scalar() / 2;
    solved.seconds = elapsed();
    return solved;
  }
  CostSum square(terms_.sums());
  Vectors<T> along = terms_.vectors(x);
  along.p = expanded(delta_.data());
  for (LinearTerm<T>& term : linear_) {
    term.apply(terms_.pool(), terms_.workers(), along);
    term.add_applied_square(terms_.pool(), terms_.layout(), square);
  }
  solved.model_decrease = -solved.slope - square.totals().squares / 2;
  solved.seconds = elapsed();
  return solved;
}

// With r = −g − (JᵀJ + Λ) δ, ‖Jδ‖² = −δ·(g + r + Λδ).
template <class T>
double CpuSystem<T>::image_square_by_scalar() const {
  const SumRanges& sums = terms_.sums();
  const auto totals =
      sums.sums<2>(terms_.pool(), sums.of_scalars(), [&](const SumRanges::Range& range) {
        double sum = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const double d = double{delta_[i]};
          sum -= d * (double{gradient_[i]} + double{cg_.residual[i]} + double{damping_[i]} * d);
        }
        return std::array{sum, 0.0};  // devices have none for energies, either
      });
  return totals[0];
}

template <class T>
Timing CpuSystem<T>::time_step(const Column<T>& x, int iterations, double damping, int samples) {
  auto matrix = product_by<T>([&](const T* p, T* q) {
    return multiply([&](std::size_t) { return static_cast<T>(damping); }, p, q);
  });
  NoPreconditioner<T> none(terms_.scalars(), kScalarsPerRange);
  const CgOptions options{.tolerance = 0, .max_iterations = iterations, .sums = &terms_.sums()};
  const double us = median_time(0, samples, [&] {
    store_jacobian(x);
    sum_gradient();
    iterate(matrix, none, options);
  });
  return {.device_us = us, .wall_us = us};
}

template <class T>
std::vector<MemoryUse> CpuSystem<T>::memory() const {
  std::uint64_t vectors = 0;
  for (const Column<T>* v : {&gradient_, &delta_, &diagonal_, &scale_, &damping_, &cg_.residual,
                             &cg_.preconditioned, &cg_.direction, &cg_.product})
    vectors += bytes_of(*v);
  std::uint64_t stored = 0;
  for (const LinearTerm<T>& term : linear_) stored += term.bytes();
  return together({{kVectorsOfUnknowns, vectors + bytes_of(ambient_), 0},
                   {kStoredResults, stored, 0},
                   {"diagonal blocks", bytes_of(blocks_), 0},
                   {"bases of tangents", manifolds_.bytes(), 0}},
                  preconditioner_->memory());
}

template class CpuSystem<float>;
template class CpuSystem<double>;

}  // namespace topograd::runtime::cpu
