// Steps found on the host: damped normal equations, the dogleg, and its plane.
#include "host_step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "../../ir/machine/state_record.hpp"
#include "../../runtime/engine/column_scaling.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../linear/factor/dense_rows.hpp"
#include "../linear/projected_step.hpp"
#include "../linear/system_search.hpp"
#include "../plan/decide.hpp"
#include "../step_control/solve_control.hpp"

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;

using Clock = std::chrono::steady_clock;

// Damping of the Gauss-Newton step of dogleg. Ceres' least one hides columns that differ from
// others by 1e-4; scale-free it falls to the level of rounding while steps gain what they promise.
constexpr double kLeastMu = 1e-15, kCeresMu = 1e-8, kLargestMu = 1, kMuFactor = 10;

// Multiply-adds, rows × unknowns², of a QR that costs no more than a few steps.
constexpr double kMostWork = 2e7;

std::span<const double> span_of(const Vector& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

}  // namespace

Eigen::VectorXd dogleg_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                            double radius, const Quadratic& quadratic) {
  if (gauss_newton.norm() <= radius) return gauss_newton;
  const double square = gradient.squaredNorm();
  const Eigen::VectorXd cauchy = -(square / quadratic(gradient)) * gradient;
  // Not finite where the gradient is in the kernel: the model falls without end along it.
  if (!cauchy.allFinite() || cauchy.norm() >= radius)
    return -(radius / std::sqrt(square)) * gradient;
  // ‖cauchy + β (gauss_newton − cauchy)‖ = Δ, the root in [0, 1] without cancellation.
  const Eigen::VectorXd leg = gauss_newton - cauchy;
  const double a = leg.squaredNorm(), b = cauchy.dot(leg);
  const double c = cauchy.squaredNorm() - radius * radius;  // <= 0
  const double root = std::sqrt(b * b - a * c);
  const double beta = b <= 0 ? (root - b) / a : -c / (b + root);
  return cauchy + beta * leg;
}

namespace {

/// y(λ) = −(D + λ)⁻¹ g in the eigenvectors' coordinates, with ‖y‖ = radius: λ by safeguarded
/// Newton steps on 1/‖y‖ (Moré & Sorensen).
Eigen::Vector2d on_boundary(const Eigen::Vector2d& g, const Eigen::Vector2d& eigenvalues,
                            double radius) {
  double low = 0, high = g.norm() / radius;
  double lambda = high / 2;
  Eigen::Vector2d y = Eigen::Vector2d::Zero();
  for (int k = 0; k < 100; ++k) {
    const Eigen::Vector2d d = eigenvalues.array() + lambda;
    y = -(g.array() / d.array()).matrix();
    const double norm = y.norm();
    if (std::fabs(norm - radius) <= 1e-14 * radius) break;
    (norm > radius ? low : high) = lambda;
    const double slope = y.cwiseAbs2().dot(d.cwiseInverse());
    const double newton = lambda + norm * norm / slope * (norm - radius) / radius;
    lambda = newton > low && newton < high ? newton : (low + high) / 2;
  }
  return y;
}

}  // namespace

Eigen::VectorXd subspace_step(const Eigen::VectorXd& gradient, const Eigen::VectorXd& gauss_newton,
                              double radius, const Quadratic& quadratic) {
  if (gauss_newton.norm() <= radius) return gauss_newton;
  const Eigen::VectorXd first = gradient.normalized();
  Eigen::VectorXd second = gauss_newton - first.dot(gauss_newton) * first;
  if (second.norm() <= 1e-12 * gauss_newton.norm())
    return dogleg_step(gradient, gauss_newton, radius, quadratic);
  second.normalize();
  Eigen::Matrix2d B;
  B(0, 0) = quadratic(first);
  B(1, 1) = quadratic(second);
  B(0, 1) = B(1, 0) = (quadratic(first + second) - B(0, 0) - B(1, 1)) / 2;
  const runtime::SymmetricEigen eigen{Eigen::MatrixXd(B)};
  const Eigen::Matrix2d vectors = eigen.vectors();
  const Eigen::Vector2d g =
      vectors.transpose() * Eigen::Vector2d(gradient.dot(first), gradient.dot(second));
  const Eigen::Vector2d values = eigen.values().cwiseMax(0.0);
  const Eigen::Vector2d y = vectors * on_boundary(g, values, radius);
  return y[0] * first + y[1] * second;
}

HostStep::HostStep(HostEngine& engine, const runtime::Model& model, const SolverOptions& options,
                   EliminationHint hint)
    : engine_(engine),
      model_(model),
      options_(options),
      hint_(std::move(hint)),
      system_(make_system()) {}
HostStep::~HostStep() = default;

std::unique_ptr<TangentSystem> HostStep::make_system() const {
  return make_tangent_system(
      options_.linear_solver,
      {.work = work_of(options_), .hint = hint_, .limits = schur_iteration(options_)});
}

std::vector<runtime::Need> HostStep::needs() const {
  using runtime::Need;
  using runtime::Pass;
  return {Need::evaluation(Pass::cost), Need::evaluation(Pass::residual),
          Need::evaluation(Pass::gradient), Need::evaluation(Pass::jacobian)};
}

void HostStep::linearized(runtime::Engine&, runtime::PointReport& point) {
  if (!jacobian_ || revision_ != model_.revision) {  // branches may have changed the terms
    jacobian_ = std::make_unique<TangentJacobian>(model_, engine_.space(), engine_.host());
    system_ = make_system();
    revision_ = model_.revision;
  }
  engine_.evaluate_host();
  jacobian_->refresh(engine_, engine_.basis());
  const std::span<const double> g = engine_.tangent_gradient();
  const Vector gradient = Eigen::Map<const Vector>(g.data(), static_cast<Eigen::Index>(g.size()));
  const Vector norms = jacobian_->column_norms();
  std::vector<double> x(model_.scalars);
  engine_.point(x);
  cost_ = point.cost;
  set_scale(norms);
  Vector residuals;
  if (system_->reads_residuals()) {
    residuals.resize(static_cast<Eigen::Index>(model_.rows));
    engine_.residuals({residuals.data(), static_cast<std::size_t>(residuals.size())});
  }
  free_scale_ = scale_;
  if (engine_.space().bounded()) {
    for (std::uint32_t k = 0; k < x.size(); ++k)
      if (engine_.space().is_active(k, x, g)) free_scale_[engine_.space().column(k)] = 0;
  }
  system_->set(*jacobian_, free_scale_, gradient, residuals);
  gradient_ = free_scale_.cwiseProduct(gradient);
  have_gauss_newton_ = std::exchange(keeps_gauss_newton_, false);
  add_scaled_norms(x, norms, point);
}

void HostStep::transfer(ir::StateRecord& record) {
  const auto vector = [&](std::string_view name, Vector& v) {
    if (record.restores()) v.resize(static_cast<Eigen::Index>(engine_.space().size()));
    record.list(name, std::span(v.data(), static_cast<std::size_t>(v.size())));
  };
  bool scaled = found_scale_.size() > 0;
  record.value("columns scaled", scaled);
  if (scaled) vector("column scaling", found_scale_);
  record.value("damping of the Gauss-Newton step", mu_);
  record.value("has the Gauss-Newton step", have_gauss_newton_);
  if (!have_gauss_newton_) return;
  vector("scale of the radius", radius_scale_);
  vector("steepest descent", steepest_);
  vector("Gauss-Newton step", gauss_newton_);
  keeps_gauss_newton_ = record.restores();
}

void HostStep::set_scale(const Vector& norms) {
  const double unit = options_.scale_free ? 0 : 1;
  const Vector here =
      norms.unaryExpr([&](double norm) { return runtime::column_scale(unit, norm); });
  if (found_scale_.size() != norms.size()) {
    found_scale_ = here;
    length_ = 0;
  } else if (options_.scale_free) {
    found_scale_ = found_scale_.binaryExpr(here, &runtime::first_scale<double>);
  }
  scale_ =
      found_scale_.unaryExpr([&](double s) { return options_.jacobi_scaling && s > 0 ? s : 1; });
}

void HostStep::add_scaled_norms(std::span<const double> x, const Vector& norms,
                                runtime::PointReport& point) const {
  Vector scaled = Vector::Zero(norms.size());
  for (Eigen::Index k = 0; k < norms.size(); ++k)
    if (norms[k] > 0)  // the gradient is 0 where held
      scaled[k] = runtime::scaled_gradient(gradient_[k] / scale_[k], norms[k] * norms[k]);
  point.scaled_gradient_norm = scaled.norm();
  point.scaled_gradient_max = scaled.lpNorm<Eigen::Infinity>();
  point.scaled_step_norm =
      delta_.size() == norms.size() ? length_ * delta_.cwiseProduct(norms).norm() : 0;
  const double squares = engine_.space().scaled_square(
      x, engine_.basis(), [&](std::uint32_t k) { return norms[k] * norms[k]; });
  point.scaled_x_norm = std::sqrt(squares);
}

runtime::StepReport HostStep::move(double length) {
  length_ = length;
  return engine_.try_tangent(span_of(delta_), length);
}

/// diag(S JᵀJ S), clamped.
Vector HostStep::damping_diagonal(const runtime::StepRequest& request) const {
  const Vector& diagonal = system_->diagonal();
  const bool small = diagonal.size() <= static_cast<Eigen::Index>(kLargestReadBack);
  const double least = request.keeps_damping && small
                           ? std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall)
                           : request.min_diagonal;
  return diagonal.cwiseMax(least).cwiseMin(request.max_diagonal);
}

/// (S JᵀJ S + λ clamp(diag)) y = −S g.
std::optional<Vector> HostStep::damped(const runtime::StepRequest& request) {
  const Vector diagonal = damping_diagonal(request);
  return system_->solve(request.lambda * diagonal,
                        {request.linear_tolerance, request.max_linear_iterations});
}

/// min ½‖J S y + r‖² + ½ Σ d y², by a QR decomposition that finds the rank; nothing for large
/// Jacobians.
///
///   damping  d >= 0
std::optional<HostStep::ByRows> HostStep::solve_by_rows(const Vector& damping) {
  const auto unknowns = static_cast<std::uint64_t>(system_->diagonal().size());
  if (unknowns * model_.rows > kLargestJacobian) return std::nullopt;
  Vector residuals(static_cast<Eigen::Index>(model_.rows));
  engine_.residuals({residuals.data(), static_cast<std::size_t>(residuals.size())});
  const Eigen::MatrixXd columns = jacobian_->dense() * free_scale_.asDiagonal();
  const Vector scale = columns.colwise().norm().unaryExpr(
      [](double norm) { return runtime::column_scale(0, norm); });
  std::optional<Vector> y = solve_rows(columns, residuals, damping, scale);
  if (!y) return std::nullopt;
  const Vector change = columns * *y;
  const double slope = residuals.dot(change);
  return ByRows{std::move(*y), slope, -slope - change.squaredNorm() / 2};
}

/// The Gauss–Newton step; where the matrix is singular, one that is damped just enough.
bool HostStep::find_gauss_newton(const runtime::StepRequest& request) {
  if (have_gauss_newton_) return true;
  radius_scale_ = damping_diagonal(request).cwiseSqrt();
  steepest_ = gradient_.cwiseQuotient(radius_scale_);
  for (; mu_ <= kLargestMu; mu_ *= kMuFactor) {
    const std::optional<Vector> y = system_->solve(
        mu_ * radius_scale_.cwiseAbs2(), {request.linear_tolerance, request.max_linear_iterations});
    if (!y) continue;
    gauss_newton_ = radius_scale_.cwiseProduct(*y);
    mu_ = std::max(options_.scale_free ? kLeastMu : kCeresMu, 2 * mu_ / kMuFactor);
    return have_gauss_newton_ = true;
  }
  mu_ = kLargestMu;
  return false;
}

std::optional<Vector> HostStep::dogleg(const runtime::StepRequest& request) {
  if (!find_gauss_newton(request)) return std::nullopt;
  const Quadratic quadratic = [this](const Vector& v) {
    return system_->quadratic(v.cwiseQuotient(radius_scale_));
  };
  const auto step = options_.dogleg_type == DoglegType::subspace ? subspace_step : dogleg_step;
  return step(steepest_, gauss_newton_, 1 / request.lambda, quadratic);
}

runtime::StepReport HostStep::try_step(runtime::Engine& engine,
                                       const runtime::StepRequest& request) {
  const Clock::time_point begin = Clock::now();
  const bool by_dogleg = options_.method == Method::dogleg;
  std::optional<Vector> y;
  std::optional<ByRows> rows;
  if (request.lambda == 0) rows = solve_by_rows(Vector::Zero(gradient_.size()));
  if (!rows && (request.lambda > 0 || !by_dogleg))
    y = by_dogleg ? dogleg(request) : damped(request);
  // So little damping that a singular matrix stays so; the rows have twice the digits.
  if (!rows && !y && !by_dogleg &&
      static_cast<std::uint64_t>(gradient_.size()) <= most_undamped(engine))
    rows = solve_by_rows(request.lambda * damping_diagonal(request));
  if (rows) y = rows->y;
  runtime::StepReport report{.model_decrease = kNaN};
  double scaled_norm = 0;
  double decrease = kNaN;
  if (y) {
    scaled_norm = y->norm();
    if (by_dogleg && !rows) y = y->cwiseQuotient(radius_scale_);
    decrease = rows ? rows->decrease : -gradient_.dot(*y) - system_->quadratic(*y) / 2;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (by_dogleg && request.lambda > 0 && !(decrease > 0)) {
    // Nothing is expected of the step: the Gauss–Newton step wants more damping.
    mu_ *= kMuFactor;
    have_gauss_newton_ = false;
  }
  if (y && std::isfinite(decrease)) {
    delta_ = free_scale_.cwiseProduct(*y);
    report = move(1);
    report.slope = rows ? rows->slope : gradient_.dot(*y);
    if (engine_.space().bounded()) {
      report = search_projected(cost_, report, [&](double length) { return move(length); });
    }
  }
  report.model_decrease = decrease;
  report.scaled_step_norm = scaled_norm;
  report.linear_iterations = system_->iterations();
  report.linear_seconds = seconds;
  return report;
}

std::vector<double> HostStep::column_squares(runtime::Engine&) {
  const Vector norms = jacobian_->column_norms();
  std::vector<double> squares(model_.scalars, kNaN);
  for (std::uint32_t s = 0; s < squares.size(); ++s) {
    const std::uint32_t k = engine_.space().column(s);
    if (k != TangentSpace::kNone && engine_.space().block_of(s) == nullptr)
      squares[s] = norms[k] * norms[k];
  }
  return squares;
}

std::uint64_t HostStep::most_undamped(const runtime::Engine&) const {
  const double rows = static_cast<double>(std::max<std::uint64_t>(1, model_.rows));
  const auto most = static_cast<std::uint64_t>(std::sqrt(kMostWork / rows));
  return most_unknowns(model_.rows, std::max(most, kLargestReadBack));
}

bool HostStep::can_rescale(runtime::Engine&) const {
  return options_.method != Method::dogleg && !engine_.space().bounded();
}

runtime::StepReport HostStep::rescale(runtime::Engine&, double length) { return move(length); }

}  // namespace topograd
