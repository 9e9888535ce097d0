// Newton's method: projected Hessians and Cholesky, or products and conjugate gradients.
#include "newton.hpp"

#include "../linear/factor/normal_equations.hpp"
#include "control.hpp"

#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Hessian = Eigen::SparseMatrix<double>;

// Smallest τ, a share of the diagonal of H.
constexpr double kLeastShift = 1e-12;
constexpr double kLargestShift = 1e6;
// Full steps in a row that promise more than this share of the one before, after which the Hessian
// is tried as it is; and how much longer the next try waits after one that found it indefinite.
constexpr int kSlowSteps = 3, kMoreSlowSteps = 2;
constexpr double kSlow = 0.01;

bool is_constant(const runtime::Model& model, std::size_t k) {
  return !model.constant.empty() && model.constant[k] != 0;
}

/// M = 1, but the first step uses ‖g‖ squared for g·g: they differ by rounding, which would persist
/// in the steps of a descent.
class FirstStep final : public runtime::cpu::HostPreconditioner<double> {
 public:
  FirstStep(std::size_t scalars, double difference) : scalars_(scalars), difference_(difference) {}
  std::size_t ranges() const override { return 1; }
  Range range(std::size_t) const override { return {0, scalars_}; }
  void apply(std::size_t, const double* r, double* z) const override {
    std::copy_n(r, scalars_, z);
  }
  double correct(const double*, double*) override { return std::exchange(difference_, 0.0); }

 private:
  std::size_t scalars_;
  double difference_;
};

bool has_energies(const runtime::Model& model) {
  return std::ranges::any_of(model.terms, &runtime::Term::energy);
}

bool has_branches(const runtime::Model& model) {
  return std::any_of(model.terms.begin(), model.terms.end(), [](const runtime::Term& term) {
    return !term.topology->program.guards.empty();
  });
}

}  // namespace

struct ProjectedNewton::Impl {
  /// Decides whether projected steps are slow. At a minimum of the sum that is none of single terms
  /// the sum of their projections is not the Hessian, and steps converge linearly.
  struct Slow {
    bool exact_first;
    int steps = 0, allowed = kSlowSteps;
    double promised = 0;  // −g·d of the last direction, if its step was a full one

    bool exact() const { return exact_first || steps >= allowed; }
    void indefinite() {
      if (exact_first) return;
      steps = 0;
      allowed *= kMoreSlowSteps;
    }
    /// After a step that was no full one.
    void start_again() {
      steps = 0;
      promised = 0;
    }
    void look(double promises) {
      if (!exact()) steps = promised > 0 && promises > kSlow * promised ? steps + 1 : 0;
      promised = promises;
    }
  };

  Impl(Engines& e, const runtime::Model& of, const UnknownScales& scales, bool exact)
      : engines(e),
        model(of),
        units(scales),
        slow{.exact_first = exact},
        by_unit(!has_energies(of)),
        revision(of.revision),
        hessian(of, true),
        shifted(Eigen::Map<const Hessian>(
            size(), size(), static_cast<Eigen::Index>(hessian.values().size()),
            hessian.starts().data(), hessian.rows().data(), hessian.values().data())) {
    factor.analyzePattern(shifted);
  }

  Eigen::Index size() const { return static_cast<Eigen::Index>(hessian.size()); }

  /// Factorises the Hessian at the engine's point as it is. False if it is not positive definite.
  bool factorize_exact(runtime::Engine& engine, std::span<const std::uint8_t> held) {
    hessian.refresh_hessian(engine, false);
    std::copy(hessian.values().begin(), hessian.values().end(), shifted.valuePtr());
    take_out(held, 1);
    factor.factorize(shifted);
    return factor.info() == Eigen::Success;
  }

  /// Factorises H + τ diag(H) with the smallest τ, from the present one upwards, that makes it
  /// positive definite. The diagonal follows the units of the unknowns; where it is 0, its largest
  /// entry counts. So it does for all unknowns of energies, whose Hessians may be singular at a
  /// minimum, unless these have scales. False if there is no such τ, and if H has no curvature at
  /// all.
  ///
  ///   held  by scalar of x, may be empty
  bool factorize(std::span<const std::uint8_t> held) {
    double largest = 0;
    for (std::size_t k = 0; k < hessian.size(); ++k)
      largest = std::max(largest, hessian.diagonal(k));
    if (!(largest > 0)) return false;
    for (; shift <= kLargestShift; shift *= 100) {
      std::copy(hessian.values().begin(), hessian.values().end(), shifted.valuePtr());
      for (std::size_t k = 0; k < hessian.size(); ++k) {
        shifted.valuePtr()[hessian.starts()[k]] += shift * unit(k, largest);
      }
      take_out(held, largest);
      factor.factorize(shifted);
      if (factor.info() == Eigen::Success) return true;
    }
    return false;
  }

  double unit(std::size_t k, double largest) const {
    const std::span<const double> scales = units.scales();
    if (!scales.empty()) return 1 / scales[hessian.free_scalars()[k]];
    const double own = hessian.diagonal(k);
    return by_unit && own > 0 ? own : largest;
  }

  /// Replaces rows and columns of these scalars by those of the identity, times `diagonal`.
  void take_out(std::span<const std::uint8_t> held, double diagonal) {
    const std::span<const std::uint32_t> free = hessian.free_scalars();
    for (std::size_t column = 0; !held.empty() && column < free.size(); ++column) {
      for (std::int32_t at = hessian.starts()[column]; at < hessian.starts()[column + 1]; ++at) {
        const auto row = static_cast<std::size_t>(hessian.rows()[at]);
        if (held[free[column]] == 0 && held[free[row]] == 0) continue;
        shifted.valuePtr()[at] = row == column ? diagonal : 0;
      }
    }
  }

  Engines& engines;
  const runtime::Model& model;
  const UnknownScales& units;
  Slow slow;
  bool by_unit;               // the shift is a share of each unknown's own entry
  bool curved = true;         // the last direction is not −g
  bool exact_failed = false;  // to lead down, since the last step
  std::uint64_t revision;     // of the model that `hessian` describes
  NormalEquations hessian;
  Hessian shifted;
  Eigen::SimplicialLLT<Hessian, Eigen::Lower, Eigen::AMDOrdering<int> > factor;
  double shift = kLeastShift;
};

ProjectedNewton::ProjectedNewton(Engines& engines, const runtime::Model& model,
                                 const UnknownScales& units, bool exact_first)
    : impl_(std::make_unique<Impl>(engines, model, units, exact_first)) {}
ProjectedNewton::~ProjectedNewton() = default;

void ProjectedNewton::compute(std::span<const double> x, std::span<const double> g,
                              std::span<const std::uint8_t> held, std::span<double> direction) {
  runtime::Engine& engine = impl_->engines.at(runtime::Pass::hessian, x);
  if (has_branches(impl_->model)) engine.cost();  // they may change the model's terms
  if (impl_->revision != impl_->model.revision) {
    const double shift = impl_->shift;
    const Impl::Slow slow = impl_->slow;
    impl_ = std::make_unique<Impl>(impl_->engines, impl_->model, impl_->units, slow.exact_first);
    impl_->shift = shift;
    impl_->slow = slow;
  }
  bool exact = false;
  if (impl_->slow.exact() && !impl_->exact_failed) {
    exact = impl_->factorize_exact(engine, held);
    if (!exact) impl_->slow.indefinite();
  }
  if (!exact) impl_->hessian.refresh_hessian(engine, true);
  std::fill(direction.begin(), direction.end(), 0.0);
  const std::span<const std::uint32_t> free = impl_->hessian.free_scalars();
  Eigen::VectorXd right(impl_->size());
  for (std::size_t k = 0; k < free.size(); ++k)
    right[static_cast<Eigen::Index>(k)] = is_held(held, free[k]) ? 0 : -g[free[k]];
  impl_->curved = exact || impl_->factorize(held);
  if (impl_->curved) right = impl_->factor.solve(right).eval();
  for (std::size_t k = 0; k < free.size(); ++k)
    direction[free[k]] = right[static_cast<Eigen::Index>(k)];
  impl_->slow.look(-dot(g, direction));
}

void ProjectedNewton::moved(double length, std::span<const double>, std::span<const double>) {
  impl_->exact_failed = false;
  if (length < 0.9) impl_->slow.start_again();
  if (length < 0.1 && !impl_->slow.exact_first) impl_->shift *= 10;
  if (length >= 0.9) impl_->shift = std::max(impl_->shift / 10, kLeastShift);
}

void ProjectedNewton::transfer(ir::StateRecord& record, std::size_t) {
  record.in_range("shift", impl_->shift, kLeastShift);
  record.in_range("slow steps", impl_->slow.steps, 0);
  record.in_range("slow steps allowed", impl_->slow.allowed, kSlowSteps);
  record.value("promised decrease", impl_->slow.promised);
}

bool ProjectedNewton::has_model() const { return impl_->curved; }

bool ProjectedNewton::reset() {
  if (impl_->slow.exact() && !impl_->exact_failed) return impl_->exact_failed = true;
  if (impl_->shift > 1) return false;
  impl_->shift = std::max(1e4 * impl_->shift, 1e-4);
  return true;
}

void TruncatedNewton::compute(std::span<const double> x, std::span<const double> g,
                              std::span<const std::uint8_t> held, std::span<double> direction) {
  namespace cpu = runtime::cpu;
  const std::size_t n = g.size();
  std::vector<double> steepest(n);
  for (std::size_t k = 0; k < n; ++k) steepest[k] = is_held(held, k) ? -0.0 : -g[k];
  runtime::Engine& engine = engines_.at(runtime::Pass::hvp, x);
  auto hessian = cpu::product_by<double>([&](const double* p, double* q) {
    runtime::second_derivatives(engine).hvp({p, n}, {q, n});
    for (std::size_t k = 0; k < n; ++k)
      if (is_constant(model_, k) || is_held(held, k)) q[k] = 0;
    return dot({p, n}, {q, n});
  });
  vectors_.resize(n);
  std::ranges::copy(steepest, vectors_.residual.data());
  rows_.look_now_and_then(x);
  const std::span<const double> scales = rows_.scales();
  const double squared = dot(steepest, steepest), norm = std::sqrt(scaled_square(steepest, scales));
  if (first_norm_ == 0) first_norm_ = norm;
  FirstStep none(n, norm * norm - squared);
  runtime::cpu::DiagonalPreconditioner<double> diagonal(scales);
  cpu::HostPreconditioner<double>& preconditioner =
      scales.empty() ? static_cast<cpu::HostPreconditioner<double>&>(none) : diagonal;
  double tolerance = std::min(0.5, std::sqrt(norm / first_norm_));
  if (exact_) tolerance = std::min(tolerance, least_);
  loose_ = gradient_only_ || tolerance > least_;
  iterations_ = cpu::conjugate_gradients(pool_, hessian, preconditioner, vectors_, direction.data(),
                                         {.tolerance = tolerance,
                                          .in_energy = !scales.empty(),
                                          .max_iterations = gradient_only_ ? 0 : max_iterations_,
                                          .negative = cpu::NegativeCurvature::is_followed})
                    .products;
  const bool moved =
      std::any_of(direction.begin(), direction.end(), [](double d) { return d != 0; });
  if (moved) return;
  for (std::size_t k = 0; k < n; ++k)
    direction[k] = scales.empty() ? steepest[k] : scales[k] * steepest[k];
}

}  // namespace topograd
