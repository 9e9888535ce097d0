// Jacobian, damping and conjugate gradients of one point; trial points and their reports.
#include "cpu_steps.hpp"

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
  if (listed_ != nullptr) listed_->follow();
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
  preconditioner_->transfer(terms_.pool(), record);
}

template <class T>
void CpuSystem<T>::store_jacobian(const Column<T>& x) {
  blocks_current_ = diagonal_current_ = false;
  if (listed_ != nullptr) listed_->linearized();
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
void CpuSystem<T>::begin_iterations() {
  cg_.resize(terms_.scalars());
  if (terms_.sums().is_part()) {  // conjugate gradients set no ghosts
    for (Column<T>* v : {&cg_.preconditioned, &cg_.direction, &delta_}) terms_.zero(*v);
  }
  const auto negate = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) cg_.residual[i] = -gradient_[i];
  };
  terms_.pool().for_ranges(terms_.scalars(), kScalarsPerRange, negate);
}

template <class T>
int CpuSystem<T>::iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
                          const CgOptions& options) {
  begin_iterations();
  if constexpr (std::is_same_v<T, double>) {
    if (krylov_ != nullptr)
      return krylov_
          ->solve(matrix, preconditioner, {cg_.residual.data(), cg_.residual.size()},
                  {delta_.data(), delta_.size()}, options)
          .iterations;
  }
  return conjugate_gradients(terms_.pool(), matrix, preconditioner, cg_, delta_.data(), options)
      .iterations;
}

template <class T>
bool CpuSystem<T>::prepare_there(StepSystem<T>& system) {
  if constexpr (std::is_same_v<T, double>) {
    const bool suits = manifolds_.empty() && terms_.sums().by_chunk() && !terms_.sums().is_part();
    if (listed_ == nullptr || krylov_ != nullptr || !suits) return false;
    if (!listed_->prepare(linear_, system)) return false;
    system.coarse = listed_.get();
    return true;
  }
  return false;
}

template <class T>
int CpuSystem<T>::iterate_there(const CgOptions& options) {
  begin_iterations();
  if constexpr (std::is_same_v<T, double>)
    return listed_->solve(*preconditioner_, cg_.residual, delta_, options).iterations;
  return 0;
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
  StepSystem<T> system{terms_.layout(), terms_.sums(), x.data(), blocks().data(),
                       damping_.data(), held_,         matrix};
  const bool there = prepare_there(system);
  const auto build = [&] {
    const TimedPass building(TimedWork::cpu, "preconditioner");
    preconditioner_->build(terms_.pool(), system);
  };
  const auto run = [&] {
    const CgOptions options{.tolerance = request.linear_tolerance,
                            .in_energy = request.energy_norm || preconditioner_->is_norm(),
                            .max_iterations = request.max_linear_iterations,
                            .eta = request.eta,
                            .sums = &terms_.sums()};
    return there ? iterate_there(options) : iterate(matrix, *preconditioner_, options);
  };
  build();
  Solved solved{.iterations = run()};
  if (preconditioner_->solved(solved.iterations)) {
    build();
    if (preconditioner_->is_norm()) {
      const int again = run();
      preconditioner_->solved(again);
      solved.iterations += again;
    }
  }
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

template <class T>
void CpuSteps<T>::follow(const Model& model, bool moved) {
  if (moved) {
    for (Column<T>* v : {&x_, &trial_}) {
      *v = Column<T>(terms_.scalars());
      terms_.zero(*v);
    }
  }
  system_.follow(model, moved);
  if (narrow_) narrow_->follow(model);
  linear_ = trial_ready_ = false;
}

template <class T>
void CpuSteps<T>::set_point(std::span<const double> x) {
  check_size("set_point", "scalars", terms_.scalars(), x.size());
  terms_.read(x, x_);
  linear_ = trial_ready_ = moved_ = false;
  if (narrow_) narrow_->is_linear = false;
}

template <class T>
void CpuSteps<T>::point(std::span<double> x) const {
  check_size("point", "scalars", terms_.scalars(), x.size());
  terms_.write(x_, x);
  terms_.box().clamp(x);
}

template <class T>
const Column<T>* CpuSteps<T>::known_gradient() const {
  const auto is_energy = [](const auto& term) { return term->energy(); };
  // Steps take scalars that a bound holds out of the system's gradient, and ignore energies.
  if (!linear_ || !terms_.box().empty() || !system_.manifolds().empty() ||
      terms_.sums().others_have_energies() || std::ranges::any_of(terms_.all(), is_energy))
    return nullptr;
  return &system_.gradient();
}

template <class T>
std::vector<std::uint8_t> CpuSteps<T>::held_at_bounds(const Column<T>& gradient) const {
  const std::vector<std::uint8_t>& constant = terms_.constant();
  std::vector<std::uint8_t> held(terms_.scalars());
  terms_.pool().for_ranges(held.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const bool at_bound = terms_.box().holds(i, x_[i], gradient[i]);
      held[i] = at_bound || (!constant.empty() && constant[i] != 0) ? 1 : 0;
    }
  });
  return held;
}

template <class T>
void CpuSteps<T>::begin_solve() {
  system_.begin_solve();
  if (narrow_) narrow_->system.begin_solve();
}

template <class T>
void CpuSteps<T>::transfer(ir::StateRecord& record) {
  system_.transfer(record);
  if (narrow_) narrow_->system.transfer(record);
}

template <class T>
const Column<T>& CpuSteps<T>::gradient_moves() {
  const CpuManifolds<T>& manifolds = system_.manifolds();
  const Column<T>& gradient = system_.gradient();
  if (manifolds.empty()) return gradient;
  if (moves_.size() != gradient.size()) moves_ = Column<T>(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) moves_[i] = -gradient[i];
  manifolds.move(terms_.pool(), terms_.workers(), x_.data(), moves_.data(), moves_.data());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    moves_[i] = manifolds.on_manifold(i) ? x_[i] - moves_[i] : gradient[i];
  return moves_;
}

template <class T>
PointReport CpuSteps<T>::linearize() {
  const TimedPass timed(TimedWork::cpu, "linearize");
  if (narrow_) narrow_->is_linear = false;
  system_.store_jacobian(x_);
  CostSum cost(terms_.sums());
  system_.add_residual_square(x_, cost);
  terms_.count_failed_guards(x_);
  system_.sum_gradient();
  linear_ = true;
  trial_ready_ = false;
  const std::vector<std::uint8_t>& constant = terms_.constant();
  const Box& box = terms_.box();
  const Column<T>& gradient = gradient_moves();
  const SumRanges& ranges = terms_.sums();
  const SumRanges::Columns<3> columns = ranges.template collect<3>(
      terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        std::array<double, 2> sums = {0, 0};  // g·g and x·x over free scalars
        double max = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const double g = double{box.projected_gradient(i, x_[i], gradient[i])};
          const double x = double{x_[i]};
          // Written so that a NaN is kept.
          max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
          sums[0] += g * g;
          if (constant.empty() || constant[i] == 0) sums[1] += x * x;
        }
        return std::array{sums[0], sums[1], max};
      });
  if (!box.empty()) system_.hold(held_at_bounds(system_.gradient()));
  PointReport report{.cost = cost.totals().squares / 2,
                     .gradient_max_norm = largest_of(columns[2]),
                     .gradient_norm = std::sqrt(pairwise_sum(columns[0])),
                     .x_norm = std::sqrt(pairwise_sum(columns[1]))};
  add_scaled_norms(report);
  return report;
}

template <class T>
void CpuSteps<T>::add_scaled_norms(PointReport& report) {
  const BlockLayout& layout = terms_.layout();
  const std::vector<std::uint8_t>& out = system_.held();
  const CpuManifolds<T>& manifolds = system_.manifolds();
  const Column<T>&gradient = system_.gradient(), &diagonal = system_.diagonal();
  const SumRanges& ranges = terms_.sums();
  const SumRanges::Columns<4> columns = ranges.template collect<4>(
      terms_.pool(), ranges.of_blocks(), [&](const SumRanges::Range& range) {
        std::array<double, 3> sums = {0, 0, 0};  // of gradient, x and step
        double max = 0;
        layout.for_diagonal(
            range.first_block, range.end_block, [&](std::uint64_t scalar, std::uint64_t) {
              const double h = double{diagonal[scalar]};
              if (h == 0 || (!out.empty() && out[scalar] != 0)) return;
              const double g = scaled_gradient(double{gradient[scalar]}, h), x = double{x_[scalar]};
              const bool on = manifolds.on_manifold(scalar);
              const double moved = on ? double{length_} * double{system_.delta()[scalar]}
                                      : x - double{trial_[scalar]};
              const double step = moved_ ? moved : 0;
              max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
              sums[0] += g * g;
              sums[1] += on ? 0 : h * x * x;
              sums[2] += h * step * step;
            });
        manifolds.for_blocks(range.first, range.end,
                             [&](std::uint64_t first, std::uint32_t width, std::uint32_t tangent,
                                 const auto& entry) {
                               sums[1] += squares_along_tangents(
                                   x_.data() + first, width, tangent,
                                   [&](std::uint32_t t) { return double{diagonal[first + t]}; },
                                   entry);
                             });
        return std::array{sums[0], sums[1], sums[2], max};
      });
  report.scaled_gradient_max = largest_of(columns[3]);
  report.scaled_gradient_norm = std::sqrt(pairwise_sum(columns[0]));
  report.scaled_x_norm = std::sqrt(pairwise_sum(columns[1]));
  report.scaled_step_norm = std::sqrt(pairwise_sum(columns[2]));
}

template <class T>
StepReport CpuSteps<T>::try_step(const StepRequest& request) {
  if (narrow_) return try_narrow_step(request);
  if (!linear_) linearize();
  const auto solved = system_.solve(x_, request);
  StepReport report = finish_step();
  report.model_decrease = solved.model_decrease;
  report.slope = solved.slope;
  report.linear_iterations = solved.iterations;
  report.linear_seconds = solved.seconds;
  return report;
}

void NarrowSystem::follow(const Model& model) {
  const bool moved = terms.follow(model);
  system.follow(model, moved);
  if (moved) x = Column<float>(terms.scalars());
  is_linear = false;
}

void NarrowSystem::linearize(std::span<const double> point) {
  terms.read(point, x);
  system.store_jacobian(x);
}

std::vector<MemoryUse> NarrowSystem::memory() const {
  return together(together(terms.memory(), system.memory()),
                  {{kVectorsOfUnknowns, bytes_of(x), 0}});
}

template <class T>
StepReport CpuSteps<T>::try_narrow_step(const StepRequest& request) {
  const TimedPass timed(TimedWork::cpu, "narrow_step");
  if (!std::exchange(narrow_->is_linear, true)) {
    std::vector<double> numbers(terms_.scalars());
    point(numbers);
    narrow_->linearize(numbers);
    Column<T> gradient(terms_.scalars());
    terms_.sum(Part::Gradient, terms_.vectors(x_), gradient);
    // In f32 a point may seem to be on a bound that it is not on.
    if (!terms_.box().empty()) narrow_->system.hold(held_at_bounds(gradient));
    terms_.write(gradient, numbers);
    narrow_->system.set_gradient(numbers);
  }
  const auto solved = narrow_->system.solve(narrow_->x, request);
  std::vector<double> delta(terms_.scalars());
  narrow_->terms.write(narrow_->system.delta(), delta);
  StepReport report = try_step(std::span<const double>(delta));
  report.model_decrease = solved.model_decrease;
  report.linear_iterations = solved.iterations;
  report.linear_seconds = solved.seconds;
  return report;
}

template <class T>
StepReport CpuSteps<T>::try_step(std::span<const double> delta) {
  check_size("try_step", "scalars", terms_.scalars(), delta.size());
  system_.set_delta(delta);
  StepReport report = finish_step();
  if (!terms_.box().empty()) report.slope = system_.gradient_times_delta();
  return report;
}

template <class T>
StepReport CpuSteps<T>::finish_step(double length) {
  const TimedPass timed(TimedWork::cpu, "trial_point");
  length_ = static_cast<T>(length);
  if (!system_.manifolds().empty()) return finish_step_on_manifolds();
  const Box& box = terms_.box();
  // Moves one scalar of the trial point and returns its step.
  const auto move = [&](std::size_t i) {
    const T step = static_cast<T>(length) * system_.delta()[i];
    trial_[i] = box.nearest(i, x_[i] + step);
    return box.empty() ? step : trial_[i] - x_[i];
  };
  const SumRanges& ranges = terms_.sums();
  if (ranges.is_part()) {  // ghosts are in no range
    for (std::size_t i = 0; i < trial_.size(); ++i) move(i);
  }
  const double square =
      ranges.sum(terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        double sum = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const T step = move(i);
          sum += double{step} * double{step};
        }
        return sum;
      });
  return {.step_norm = std::sqrt(square), .trial_cost = trial_cost()};
}

template <class T>
StepReport CpuSteps<T>::finish_step_on_manifolds() {
  const Box& box = terms_.box();
  Column<T> step(trial_.size());
  for (std::size_t i = 0; i < trial_.size(); ++i) {
    step[i] = length_ * system_.delta()[i];
    trial_[i] = box.nearest(i, x_[i] + step[i]);
  }
  system_.manifolds().move(terms_.pool(), terms_.workers(), x_.data(), step.data(), trial_.data());
  const SumRanges& ranges = terms_.sums();
  const double square =
      ranges.sum(terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        double sum = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const double moved = double{trial_[i]} - double{x_[i]};
          sum += moved * moved;
        }
        return sum;
      });
  return {.step_norm = std::sqrt(square), .trial_cost = trial_cost()};
}

template <class T>
double CpuSteps<T>::trial_cost() {
  trial_ready_ = true;
  return terms_.cost(trial_);
}

template <class T>
void CpuSteps<T>::trial_point(std::span<double> x) {
  check_size("trial_point", "scalars", terms_.scalars(), x.size());
  terms_.write(trial_, x);
  terms_.box().clamp(x);
}

template <class T>
void CpuSteps<T>::accept() {
  if (!trial_ready_) return;
  std::swap(x_, trial_);
  linear_ = trial_ready_ = false;
  if (narrow_) narrow_->is_linear = false;
  moved_ = true;
}

template <class T>
void CpuSteps<T>::last_step(std::span<double> delta) {
  check_size("last_step", "scalars", terms_.scalars(), delta.size());
  terms_.write(system_.delta(), delta);
}

template <class T>
Timing CpuSteps<T>::time_step(int iterations, double damping, int samples) {
  linear_ = trial_ready_ = false;
  if (narrow_) {
    std::vector<double> numbers(terms_.scalars());
    point(numbers);
    narrow_->terms.read(numbers, narrow_->x);
    narrow_->is_linear = false;
    return narrow_->system.time_step(narrow_->x, iterations, damping, samples);
  }
  return system_.time_step(x_, iterations, damping, samples);
}

template <class T>
std::vector<MemoryUse> CpuSteps<T>::memory() const {
  std::vector<MemoryUse> uses =
      together({{kVectorsOfUnknowns, bytes_of(x_) + bytes_of(trial_), 0}}, system_.memory());
  return narrow_ ? together(std::move(uses), narrow_->memory()) : uses;
}

template class CpuSteps<float>;
template class CpuSteps<double>;

}  // namespace topograd::runtime::cpu
