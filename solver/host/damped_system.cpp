// Solving damped normal equations on the host.
#include "damped_system.hpp"

#include "../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../runtime/profile.hpp"
#include "../linear/factor/dense_rows.hpp"
#include "../linear/factor/factorization.hpp"
#include "../plan/decide.hpp"

#include <Eigen/QR>

#include <algorithm>
#include <utility>

namespace topograd {
namespace {

namespace cpu = runtime::cpu;
using Vector = Eigen::VectorXd;

}  // namespace

struct DampedSystem::Impl {
  Impl(LinearSolver which, const cpu::CpuWork& of, EliminationHint first,
       const std::optional<SchurIteration>& bounds)
      : work(of),
        kind(host_solver(which, !first.empty(), false)),
        may_eliminate(which == LinearSolver::automatic && first.empty()),
        hint(std::move(first)),
        limits(bounds) {}

  std::optional<Vector> cholesky(const Vector& damping) {
    if (!factor) analyse();
    add_damping(damping);
    if (!factor->factor(damped)) return std::nullopt;
    Vector y = factor->solve(right);
    iterations = factor->iterations();
    return y;
  }

  void analyse() {
    Elimination elimination;
    if (kind == LinearSolver::schur || may_eliminate)
      elimination = find_elimination(scaled, block_of, hint);
    if (may_eliminate) kind = host_solver(LinearSolver::automatic, false, elimination.pays());
    may_eliminate = false;
    factor = kind == LinearSolver::schur
                 ? make_schur_factorization(scaled, elimination, work, limits)
                 : make_sparse_factorization(scaled, work);
  }

  std::optional<Vector> conjugate_gradients(const Vector& damping, const DampedRequest& request) {
    add_damping(damping);
    const Eigen::Index n = right.size();
    auto matrix = cpu::product_by<double>([this, n](const double* p, double* q) {
      const Eigen::Map<const Vector> from(p, n);
      Eigen::Map<Vector> to(q, n);
      to.noalias() = damped.selfadjointView<Eigen::Lower>() * from;
      return from.dot(to);
    });
    const Vector inverse =
        (diagonal + damping).unaryExpr([](double d) { return d != 0 ? 1 / d : 1; });
    cpu::DiagonalPreconditioner<double> jacobi({inverse.data(), static_cast<std::size_t>(n)});
    vectors.resize(static_cast<std::size_t>(n));
    std::copy_n(right.data(), n, vectors.residual.data());
    Vector y(n);
    const cpu::CgReport report = cpu::conjugate_gradients(pool, matrix, jacobi, vectors, y.data(),
                                                          {.tolerance = request.tolerance,
                                                           .max_iterations = request.max_iterations,
                                                           .order = cpu::SumOrder::packets});
    // The one that reached the tolerance is not counted, as in Eigen.
    iterations = report.end == cpu::CgEnd::converged ? std::max(0, report.iterations - 1)
                                                     : report.iterations;
    if (report.end == cpu::CgEnd::breakdown) return std::nullopt;
    return y;
  }

  /// [J S; √d] y = [−r; 0] by a QR decomposition that finds its rank: least squares of least effort
  /// on the normal equations' precision.
  std::optional<Vector> dense(const Vector& damping) const {
    const DampedRows rows = damped_rows(J, residuals, damping);
    return Eigen::ColPivHouseholderQR<Eigen::MatrixXd>(rows.matrix).solve(rows.right);
  }

  void add_damping(const Vector& damping) {
    damped = scaled;
    for (Eigen::Index k = 0; k < damping.size(); ++k)
      damped.valuePtr()[damped.outerIndexPtr()[k]] += damping[k];
  }

  cpu::CpuWork work;
  LinearSolver kind;
  bool may_eliminate = false;  // automatic, until the pattern is known
  EliminationHint hint;
  std::optional<SchurIteration> limits;
  int iterations = 0;
  cpu::Pool pool{1};
  cpu::CgVectors<double> vectors;
  SparseMatrix scaled, damped;  // lower triangles of S JᵀJ S, and of the same with damping
  Eigen::MatrixXd J;            // dense: J S
  Vector right, residuals, diagonal;
  std::vector<std::uint32_t> block_of;  // by column
  std::unique_ptr<Factorization> factor;
};

DampedSystem::DampedSystem(LinearSolver kind, const cpu::CpuWork& work, EliminationHint hint,
                           const std::optional<SchurIteration>& limits)
    : impl_(std::make_unique<Impl>(kind, work, std::move(hint), limits)) {}
DampedSystem::~DampedSystem() = default;
DampedSystem& DampedSystem::operator=(DampedSystem&&) noexcept = default;

LinearSolver DampedSystem::kind() const { return impl_->kind; }
const Vector& DampedSystem::diagonal() const { return impl_->diagonal; }
int DampedSystem::iterations() const { return impl_->iterations; }

void DampedSystem::set(TangentJacobian& jacobian, const Vector& scale, const Vector& gradient,
                       const Vector& residuals) {
  const runtime::TimedPass timed(runtime::TimedWork::cpu, "normal_equations");
  Impl& s = *impl_;
  s.right = -scale.cwiseProduct(gradient);
  if (s.kind == LinearSolver::dense) {
    s.J = jacobian.dense() * scale.asDiagonal();
    s.residuals = residuals;
    s.diagonal = s.J.colwise().squaredNorm();
    return;
  }
  s.scaled = jacobian.normal();
  if (!s.factor) s.block_of = jacobian.block_of_column();
  for (Eigen::Index c = 0; c < s.scaled.cols(); ++c)
    for (SparseMatrix::InnerIterator it(s.scaled, c); it; ++it)
      it.valueRef() *= scale[c] * scale[it.row()];
  // Rows ascend and the triangle is the lower one: the diagonal comes first.
  s.diagonal.resize(s.scaled.cols());
  for (Eigen::Index c = 0; c < s.scaled.cols(); ++c)
    s.diagonal[c] = s.scaled.valuePtr()[s.scaled.outerIndexPtr()[c]];
}

std::optional<Vector> DampedSystem::solve(const Vector& damping, const DampedRequest& request) {
  const runtime::TimedPass timed(runtime::TimedWork::cpu, "factor");
  impl_->iterations = 0;
  std::optional<Vector> y;
  switch (impl_->kind) {
    case LinearSolver::dense: y = impl_->dense(damping); break;
    case LinearSolver::pcg: y = impl_->conjugate_gradients(damping, request); break;
    case LinearSolver::automatic:
    case LinearSolver::cholesky:
    case LinearSolver::schur: y = impl_->cholesky(damping); break;
  }
  if (y && !y->allFinite()) y.reset();
  return y;
}

double DampedSystem::quadratic(const Vector& v) const {
  if (impl_->kind == LinearSolver::dense) return (impl_->J * v).squaredNorm();
  return v.dot(impl_->scaled.selfadjointView<Eigen::Lower>() * v);
}

}  // namespace topograd
