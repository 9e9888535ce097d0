// Steps by sparse Cholesky factorisation on the host.
#include <topograd/solver/linear/cholesky.hpp>

#include <topograd/solver/linear/normal_equations.hpp>

#ifdef TOPOGRAD_CHOLMOD
#include <Eigen/CholmodSupport>
#else
#include <Eigen/SparseCholesky>
#endif
#include <Eigen/SparseCore>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::SparseMatrix<double>;
#ifdef TOPOGRAD_CHOLMOD
using Factor = Eigen::CholmodSupernodalLLT<Matrix, Eigen::Lower>;
#else
using Factor = Eigen::SimplicialLLT<Matrix, Eigen::Lower, Eigen::AMDOrdering<int> >;
#endif
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

struct CholeskyStep::Impl {
  explicit Impl(const runtime::Model& of)
      : model(of),
        revision(of.revision),
        normal(of),
        gradient(of.scalars),
        delta(of.scalars),
        reduced(static_cast<Eigen::Index>(normal.size())),
        damped(view()) {
    factor.analyzePattern(damped);
  }

  /// The lower triangle of JᵀJ as Eigen sees it.
  Eigen::Map<const Matrix> view() const {
    const auto n = static_cast<Eigen::Index>(normal.size());
    return {n,
            n,
            static_cast<Eigen::Index>(normal.values().size()),
            normal.starts().data(),
            normal.rows().data(),
            normal.values().data()};
  }

  void scale_by_first_point() {
    scale.resize(normal.size());
    for (std::size_t k = 0; k < scale.size(); ++k) {
      scale[k] = 1 / (1 + std::sqrt(normal.diagonal(k)));
    }
  }

  /// JᵀJ + λ S⁻¹ clamp(S² diag JᵀJ) S⁻¹: the clamped damping of the column-scaled system, unscaled
  /// again.
  void damp(const runtime::StepRequest& request) {
    std::copy(normal.values().begin(), normal.values().end(), damped.valuePtr());
    for (std::size_t k = 0; k < normal.size(); ++k) {
      const double squared = request.jacobi_scaling ? scale[k] * scale[k] : 1.0;
      const double diagonal =
          std::clamp(squared * normal.diagonal(k), request.min_diagonal, request.max_diagonal);
      damped.valuePtr()[normal.starts()[k]] += request.lambda * diagonal / squared;
    }
  }

  /// False if the matrix is not positive definite. δ and the model's decrease otherwise.
  bool solve(double& decrease) {
    factor.factorize(damped);
    if (factor.info() != Eigen::Success) return false;
    const std::span<const std::uint32_t> free = normal.free_scalars();
    for (std::size_t k = 0; k < free.size(); ++k) {
      reduced[static_cast<Eigen::Index>(k)] = -gradient[free[k]];
    }
    const Eigen::VectorXd minus_gradient = reduced;
    reduced = factor.solve(minus_gradient);
    if (!reduced.allFinite()) return false;
    const Eigen::VectorXd product = view().selfadjointView<Eigen::Lower>() * reduced;
    decrease = reduced.dot(minus_gradient) - 0.5 * reduced.dot(product);
    std::fill(delta.begin(), delta.end(), 0.0);
    for (std::size_t k = 0; k < free.size(); ++k) {
      delta[free[k]] = reduced[static_cast<Eigen::Index>(k)];
    }
    return true;
  }

  const runtime::Model& model;
  std::uint64_t revision;  // of the model that `normal` describes
  NormalEquations normal;
  std::vector<double> gradient, delta;  // all scalars
  std::vector<double> scale;            // free scalars; empty before the first point
  Eigen::VectorXd reduced;
  Matrix damped;  // JᵀJ + λD, lower triangle
  Factor factor;
};

CholeskyStep::CholeskyStep(const runtime::Model& model) : impl_(std::make_unique<Impl>(model)) {}
CholeskyStep::~CholeskyStep() = default;

#ifdef TOPOGRAD_CHOLMOD
double CholeskyStep::factor_entries() const { return impl_->factor.cholmod().lnz; }
double CholeskyStep::factor_flops() const { return impl_->factor.cholmod().fl; }
#else
double CholeskyStep::factor_entries() const { return 0; }
double CholeskyStep::factor_flops() const { return 0; }
#endif

void CholeskyStep::linearized(runtime::Engine& engine) {
  if (impl_->revision != impl_->model.revision) {
    std::vector<double> scale = std::move(impl_->scale);
    impl_ = std::make_unique<Impl>(impl_->model);
    impl_->scale = std::move(scale);
  }
  impl_->normal.refresh(engine);
  engine.gradient(impl_->gradient);
  if (impl_->scale.empty()) impl_->scale_by_first_point();
}

runtime::StepReport CholeskyStep::try_step(runtime::Engine& engine,
                                           const runtime::StepRequest& request) {
  const Clock::time_point begin = Clock::now();
  impl_->damp(request);
  double decrease = std::numeric_limits<double>::quiet_NaN();
  const bool solved = impl_->solve(decrease);
  const double seconds = seconds_since(begin);
  runtime::StepReport report;
  if (solved) report = engine.try_step(std::span<const double>(impl_->delta));
  report.model_decrease = decrease;
  report.linear_seconds = seconds;
  return report;
}

}  // namespace topograd
