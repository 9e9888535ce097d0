// Linear systems in tangent coordinates: by a factor, by conjugate gradients, and by QR.
#include "tangent_system.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../../runtime/profile.hpp"
#include "../linear/factor/dense_rows.hpp"
#include "../plan/decide.hpp"

namespace topograd {

void TangentSystem::set(TangentJacobian& jacobian, const Eigen::VectorXd& scale,
                        const Eigen::VectorXd& gradient, const Eigen::VectorXd& residuals) {
  const runtime::TimedPass timed(runtime::TimedWork::cpu, "normal_equations");
  right_ = -scale.cwiseProduct(gradient);
  set_matrix(jacobian, scale, residuals);
}

std::optional<Eigen::VectorXd> TangentSystem::solve(const Eigen::VectorXd& damping,
                                                    const DampedRequest& request) {
  const runtime::TimedPass timed(runtime::TimedWork::cpu, "factor");
  iterations_ = 0;
  std::optional<Eigen::VectorXd> y = solve_damped(damping, request);
  if (y && !y->allFinite()) y.reset();
  return y;
}

namespace {

/// Has the lower triangle of S JᵀJ S.
class NormalTangents : public TangentSystem {
 public:
  double quadratic(const Eigen::VectorXd& v) const override {
    return v.dot(scaled_.selfadjointView<Eigen::Lower>() * v);
  }

 protected:
  void set_matrix(TangentJacobian& jacobian, const Eigen::VectorXd& scale,
                  const Eigen::VectorXd& /*residuals*/) override {
    scaled_ = jacobian.normal();
    for (Eigen::Index c = 0; c < scaled_.cols(); ++c)
      for (SparseMatrix::InnerIterator it(scaled_, c); it; ++it)
        it.valueRef() *= scale[c] * scale[it.row()];
    // Rows ascend and the triangle is the lower one: the diagonal comes first.
    diagonal_.resize(scaled_.cols());
    for (Eigen::Index c = 0; c < scaled_.cols(); ++c)
      diagonal_[c] = scaled_.valuePtr()[scaled_.outerIndexPtr()[c]];
  }

  const SparseMatrix& damped_by(const Eigen::VectorXd& damping) {
    damped_ = scaled_;
    for (Eigen::Index k = 0; k < damping.size(); ++k)
      damped_.valuePtr()[damped_.outerIndexPtr()[k]] += damping[k];
    return damped_;
  }

  SparseMatrix scaled_, damped_;  // lower triangles, without damping and with it
};

/// cholesky and schur, and automatic, which chooses one of them when it has the pattern.
class FactoredTangents final : public NormalTangents {
 public:
  FactoredTangents(LinearSolver asked, TangentSystemSetup setup)
      : kind_(host_solver(asked, !setup.hint.empty(), false)),
        may_eliminate_(asked == LinearSolver::automatic && setup.hint.empty()),
        setup_(std::move(setup)) {}

  LinearSolver kind() const override { return kind_; }

 private:
  void set_matrix(TangentJacobian& jacobian, const Eigen::VectorXd& scale,
                  const Eigen::VectorXd& residuals) override {
    NormalTangents::set_matrix(jacobian, scale, residuals);
    if (!factor_) block_of_ = jacobian.block_of_column();
  }

  std::optional<Eigen::VectorXd> solve_damped(const Eigen::VectorXd& damping,
                                              const DampedRequest& request) override {
    if (!factor_) analyse();
    if (setup_.limits) {
      setup_.limits->tolerance = request.tolerance;
      setup_.limits->max_iterations = request.max_iterations;
      factor_->stop_at(*setup_.limits);
    }
    if (!factor_->factor(damped_by(damping))) return std::nullopt;
    Eigen::VectorXd y = factor_->solve(right_);
    iterations_ = factor_->iterations();
    return y;
  }

  void analyse() {
    Elimination elimination;
    if (kind_ == LinearSolver::schur || may_eliminate_)
      elimination = find_elimination(scaled_, block_of_, setup_.hint);
    if (may_eliminate_) kind_ = host_solver(LinearSolver::automatic, false, elimination.pays());
    may_eliminate_ = false;
    factor_ = kind_ == LinearSolver::schur
                  ? make_schur_factorization(scaled_, elimination, setup_.work, setup_.limits)
                  : make_sparse_factorization(scaled_, setup_.work);
  }

  LinearSolver kind_;
  bool may_eliminate_;  // automatic, until the pattern is known
  TangentSystemSetup setup_;
  std::vector<std::uint32_t> block_of_;  // by column
  std::unique_ptr<Factorization> factor_;
};

class IteratedTangents final : public NormalTangents {
 public:
  LinearSolver kind() const override { return LinearSolver::pcg; }

 private:
  std::optional<Eigen::VectorXd> solve_damped(const Eigen::VectorXd& damping,
                                              const DampedRequest& request) override {
    namespace cpu = runtime::cpu;
    const SparseMatrix& damped = damped_by(damping);
    const Eigen::Index n = right_.size();
    auto matrix = cpu::product_by<double>([&damped, n](const double* p, double* q) {
      const Eigen::Map<const Eigen::VectorXd> from(p, n);
      Eigen::Map<Eigen::VectorXd> to(q, n);
      to.noalias() = damped.selfadjointView<Eigen::Lower>() * from;
      return from.dot(to);
    });
    const Eigen::VectorXd inverse =
        (diagonal_ + damping).unaryExpr([](double d) { return d != 0 ? 1 / d : 1; });
    cpu::DiagonalPreconditioner<double> jacobi({inverse.data(), static_cast<std::size_t>(n)});
    vectors_.resize(static_cast<std::size_t>(n));
    std::copy_n(right_.data(), n, vectors_.residual.data());
    Eigen::VectorXd y(n);
    const cpu::CgReport report = cpu::conjugate_gradients(pool_, matrix, jacobi, vectors_, y.data(),
                                                          {.tolerance = request.tolerance,
                                                           .max_iterations = request.max_iterations,
                                                           .order = cpu::SumOrder::packets});
    // The one that reached the tolerance is not counted, as in Eigen.
    iterations_ = report.end == cpu::CgEnd::converged ? std::max(0, report.iterations - 1)
                                                      : report.iterations;
    if (report.end == cpu::CgEnd::breakdown) return std::nullopt;
    return y;
  }

  runtime::cpu::Pool pool_{1};
  runtime::cpu::CgVectors<double> vectors_;
};

/// [J S; √d] y = [−r; 0] by a QR decomposition that finds its rank: least squares of least effort
/// on the normal equations' precision.
class DenseTangents final : public TangentSystem {
 public:
  LinearSolver kind() const override { return LinearSolver::dense; }
  bool reads_residuals() const override { return true; }
  double quadratic(const Eigen::VectorXd& v) const override { return (J_ * v).squaredNorm(); }

 private:
  void set_matrix(TangentJacobian& jacobian, const Eigen::VectorXd& scale,
                  const Eigen::VectorXd& residuals) override {
    J_ = jacobian.dense() * scale.asDiagonal();
    residuals_ = residuals;
    diagonal_ = J_.colwise().squaredNorm();
  }

  std::optional<Eigen::VectorXd> solve_damped(const Eigen::VectorXd& damping,
                                              const DampedRequest& /*request*/) override {
    const DampedRows rows = damped_rows(J_, residuals_, damping);
    return runtime::least_squares(rows.matrix, rows.right);
  }

  Eigen::MatrixXd J_;  // J S
  Eigen::VectorXd residuals_;
};

}  // namespace

std::unique_ptr<TangentSystem> make_tangent_automatic(TangentSystemSetup setup) {
  return std::make_unique<FactoredTangents>(LinearSolver::automatic, std::move(setup));
}
std::unique_ptr<TangentSystem> make_tangent_cholesky(TangentSystemSetup setup) {
  return std::make_unique<FactoredTangents>(LinearSolver::cholesky, std::move(setup));
}
std::unique_ptr<TangentSystem> make_tangent_schur(TangentSystemSetup setup) {
  return std::make_unique<FactoredTangents>(LinearSolver::schur, std::move(setup));
}
// NOLINTBEGIN(performance-unnecessary-value-param): all have one signature
std::unique_ptr<TangentSystem> make_tangent_pcg(TangentSystemSetup /*setup*/) {
  return std::make_unique<IteratedTangents>();
}
std::unique_ptr<TangentSystem> make_tangent_dense(TangentSystemSetup /*setup*/) {
  return std::make_unique<DenseTangents>();
}
// NOLINTEND(performance-unnecessary-value-param)

std::unique_ptr<TangentSystem> make_tangent_system(LinearSolver kind, TangentSystemSetup setup) {
  constexpr std::unique_ptr<TangentSystem> (*kMakers[])(TangentSystemSetup) = {
#define TG_LINEAR_SOLVER(row, ...) make_tangent_##row,
#include "../option_values.def"
  };
  return kMakers[static_cast<std::size_t>(kind)](std::move(setup));
}

}  // namespace topograd
