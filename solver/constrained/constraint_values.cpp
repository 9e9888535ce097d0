// Runs the programs of constraints over their batches, and least squares for multipliers.
#include "constraint_values.hpp"

#include <Eigen/IterativeLinearSolvers>
#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#include <algorithm>
#include <cstdint>
#include <memory>

#include "../../autodiff/derivatives.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../runtime/model/model.hpp"
#include "../../runtime/plan/passes.hpp"

namespace topograd {
namespace {

runtime::Columns run(const ProblemModel& model, runtime::RowRunner& runner, std::size_t term,
                     runtime::Pass pass, std::span<const double> x) {
  const ir::Program& plain = Penalties::plain(*model.problem, model.topologies[term]);
  const ir::Program program =
      ir::expand(runtime::pass_program(pass, plain, autodiff::all_slots(plain)));
  const runtime::Term& of = model.model.terms[term];
  return runner.run(program, runtime::rows_of(model.model, of, x, 0, of.batch->size()));
}

using ColumnMatrix = Eigen::SparseMatrix<double>;

// Limits of conjugate gradients.
constexpr int kMostIterations = 200;
constexpr double kTolerance = 1e-12;
// Products in J Jᵀ up to which it is factorised.
constexpr double kMostProducts = 2e7;
// Regularisation of J Jᵀ as a share of its largest diagonal entry, and corrections of what it
// changes: gradients may depend on each other.
constexpr double kRegularisation = 1e-12;
constexpr int kCorrections = 10;

/// ColumnMatrix by scalars -> gradients by the coordinates that must vanish: those that are free,
/// on manifolds the tangents, and not pushed against a bound by g.
ColumnMatrix projection(const ConstrainedRun& run, std::span<const double> gradient) {
  const std::span<const double> x = run.inner.point();
  std::vector<double> basis, coordinates(run.space.size());
  std::vector<Eigen::Triplet<double>> entries;
  if (run.space.basis(x, basis)) {
    run.space.project(basis, gradient, coordinates);
    for (std::uint32_t k = 0; k < x.size(); ++k) {
      const bool is_free = run.space.column(k) != TangentSpace::kNone &&
                           run.space.block_of(k) == nullptr &&
                           !run.space.is_active(k, x, coordinates);
      if (is_free)
        entries.emplace_back(static_cast<int>(run.space.column(k)), static_cast<int>(k), 1);
    }
    for (const TangentSpace::Block& block : run.space.blocks())
      for (std::uint32_t k = 0; k < block.width; ++k)
        for (std::uint32_t t = 0; t < block.tangent; ++t)
          entries.emplace_back(static_cast<int>(block.column + t),
                               static_cast<int>(block.offset + k),
                               basis[block.basis + k * block.tangent + t]);
  }
  ColumnMatrix out(static_cast<Eigen::Index>(coordinates.size()),
                   static_cast<Eigen::Index>(x.size()));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

/// Gradients of the rows, one column each, times their units.
ColumnMatrix scaled_gradients(ConstrainedRun& run, const FittedRows& of) {
  const std::span<const std::size_t> rows = of.rows;
  const ProblemModel& model = run.model;
  const std::uint64_t first = run.penalties.first_row();
  const runtime::Engine& engine = run.inner.engine(runtime::Pass::cost);
  std::vector<Eigen::Triplet<double>> entries;
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    if (!is_constraint(model.problem->kind(model.topologies[t]))) continue;
    const ir::Batch& batch = *model.model.terms[t].batch;
    const std::size_t outputs = constraint_outputs(model, t);
    const std::uint32_t slots = batch.parameter_columns();
    const std::vector<double> J = constraint_jacobian(model, engine, t, run.inner.point());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::size_t k = 0; k < outputs; ++k) {
        const std::size_t row = batch.residual_row(i) - first + k;
        const auto at = std::ranges::lower_bound(rows, row);
        if (at == rows.end() || *at != row) continue;
        const double unit = of.units[static_cast<std::size_t>(at - rows.begin())];
        for (std::uint32_t s = 0; s < slots; ++s)
          entries.emplace_back(static_cast<int>(batch.index(i, s)),
                               static_cast<int>(at - rows.begin()),
                               unit * J[(i * outputs + k) * slots + s]);
      }
    }
  }
  ColumnMatrix out(static_cast<Eigen::Index>(run.inner.point().size()),
                   static_cast<Eigen::Index>(rows.size()));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

/// Multiply-adds of AᵀA.
double products_of(const ColumnMatrix& a) {
  const Eigen::SparseMatrix<double, Eigen::RowMajor> rows = a;
  double sum = 0;
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    const double entries = rows.outerIndexPtr()[row + 1] - rows.outerIndexPtr()[row];
    sum += entries * entries;
  }
  return sum;
}

/// The smallest z of those with the least ‖right − A z‖.
Eigen::VectorXd least_squares(const ColumnMatrix& a, const Eigen::VectorXd& right) {
  if (products_of(a) > kMostProducts) {
    Eigen::LeastSquaresConjugateGradient<ColumnMatrix> fit;
    fit.setMaxIterations(kMostIterations);
    fit.setTolerance(kTolerance);
    fit.compute(a);
    return fit.solve(right);
  }
  ColumnMatrix normal = a.transpose() * a;
  const double largest = normal.diagonal().size() > 0 ? normal.diagonal().maxCoeff() : 0;
  ColumnMatrix identity(normal.rows(), normal.cols());
  identity.setIdentity();
  normal += kRegularisation * largest * identity;
  const Eigen::SimplicialLDLT<ColumnMatrix> factor(normal);
  Eigen::VectorXd z = Eigen::VectorXd::Zero(a.cols());
  if (factor.info() != Eigen::Success) return z;
  Eigen::VectorXd rest = right;
  for (int k = 0; k < kCorrections; ++k) {
    const Eigen::VectorXd next = z + factor.solve(a.transpose() * rest);
    const Eigen::VectorXd left = right - a * next;
    if (!(left.norm() < rest.norm())) break;
    z = next;
    rest = left;
  }
  return z;
}

}  // namespace

std::size_t constraint_outputs(const ProblemModel& model, std::size_t term) {
  return Penalties::plain(*model.problem, model.topologies[term]).outputs.size();
}

std::vector<double> constraint_values(const ProblemModel& model, const runtime::Engine& engine,
                                      std::uint64_t first_row, std::span<const double> x) {
  const std::unique_ptr<runtime::RowRunner> runner = engine.row_runner();
  std::vector<double> out(model.problem->constraint_count());
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    if (!is_constraint(model.problem->kind(model.topologies[t]))) continue;
    const runtime::Columns c = run(model, *runner, t, runtime::Pass::residual, x);
    const ir::Batch& batch = *model.model.terms[t].batch;
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t k = 0; k < c.size(); ++k)
        out[batch.residual_row(i) - first_row + k] = c[k][i];
  }
  return out;
}

std::vector<double> constraint_jacobian(const ProblemModel& model, const runtime::Engine& engine,
                                        std::size_t term, std::span<const double> x) {
  const runtime::Columns entries =
      run(model, *engine.row_runner(), term, runtime::Pass::jacobian, x);
  std::vector<double> out(model.model.terms[term].batch->size() * entries.size());
  for (std::size_t k = 0; k < entries.size(); ++k)
    for (std::size_t i = 0; i < entries[k].size(); ++i) out[i * entries.size() + k] = entries[k][i];
  return out;
}

void fit_multipliers(ConstrainedRun& run, const FittedRows& of, std::vector<double>& gradient) {
  if (of.rows.empty()) return;
  const ColumnMatrix all = scaled_gradients(run, of);
  const ColumnMatrix free_coordinates = projection(run, gradient);
  Eigen::Map<Eigen::VectorXd> g(gradient.data(), static_cast<Eigen::Index>(gradient.size()));
  const Eigen::VectorXd right = free_coordinates * g;
  Eigen::VectorXd change = least_squares(free_coordinates * all, right);
  if (!change.allFinite()) return;
  for (std::size_t k = 0; k < of.rows.size(); ++k) {
    const std::size_t row = of.rows[k];
    double& z = change[static_cast<Eigen::Index>(k)];
    if (!run.equality[row]) z = std::max(z, (of.kept - 1) * run.multipliers[row] / of.units[k]);
    run.multipliers[row] += of.units[k] * z;
  }
  g -= all * change;
}

}  // namespace topograd
