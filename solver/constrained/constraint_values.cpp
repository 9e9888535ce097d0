// Runs the programs of constraints, fits multipliers, and gathers rows by label.
#include "constraint_values.hpp"

#include <Eigen/Dense>
#include <Eigen/IterativeLinearSolvers>
#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

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

/// ColumnMatrix by scalars -> gradients in their units by the coordinates that must vanish: those
/// that are free, on manifolds the tangents, and not pushed against a bound by g.
ColumnMatrix projection(const ConstrainedRun& run, std::span<const double> gradient) {
  const std::span<const double> x = run.inner.point();
  const std::span<const double> units = run.units.now();
  std::vector<double> basis, coordinates(run.space.size());
  std::vector<Eigen::Triplet<double>> entries;
  if (run.space.basis(x, basis)) {
    run.space.project(basis, gradient, coordinates);
    for (std::uint32_t k = 0; k < x.size(); ++k) {
      const bool is_free = run.space.column(k) != TangentSpace::kNone &&
                           run.space.block_of(k) == nullptr &&
                           !run.space.is_active(k, x, coordinates);
      if (is_free)
        entries.emplace_back(static_cast<int>(run.space.column(k)), static_cast<int>(k),
                             1 / units[k]);
    }
    for (const TangentSpace::Block& block : run.space.blocks())
      for (std::uint32_t k = 0; k < block.width; ++k)
        for (std::uint32_t t = 0; t < block.tangent; ++t)
          entries.emplace_back(static_cast<int>(block.column + t),
                               static_cast<int>(block.offset + k),
                               basis[block.basis + k * block.tangent + t] / units[block.offset]);
  }
  ColumnMatrix out(static_cast<Eigen::Index>(coordinates.size()),
                   static_cast<Eigen::Index>(x.size()));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

/// Gradients of the rows, one column each, times their units.
ColumnMatrix scaled_gradients(ConstrainedRun& run, const FittedRows& of) {
  const std::span<const std::size_t> rows = of.rows;
  std::vector<Eigen::Triplet<double>> entries;
  for_each_constraint_row(run, [&](const ConstraintRow& one) {
    const auto at = std::ranges::lower_bound(rows, one.row);
    if (at == rows.end() || *at != one.row) return;
    const double unit = of.units[static_cast<std::size_t>(at - rows.begin())];
    for (std::uint32_t s = 0; s < one.derivatives.size(); ++s)
      entries.emplace_back(static_cast<int>(one.batch.index(one.instance, s)),
                           static_cast<int>(at - rows.begin()), unit * one.derivatives[s]);
  });
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

// A gradient that has less than this share of its length outside of the others' span depends on
// them.
constexpr double kDependent = 1e-8;

/// One row of the constraints.
struct RowInstance {
  std::uint32_t term = 0;
  std::uint32_t output = 0;
  std::size_t instance = 0;
};

std::vector<RowInstance> rows_of(const ConstrainedEnd& end) {
  std::vector<RowInstance> rows(end.multipliers.size());
  for (std::uint32_t t = 0; t < end.model.topologies.size(); ++t) {
    if (!is_constraint(end.problem.kind(end.model.topologies[t]))) continue;
    const runtime::Term& term = end.model.model.terms[t];
    const auto outputs = static_cast<std::uint32_t>(constraint_outputs(end.model, t));
    for (std::size_t i = 0; i < term.batch->size(); ++i)
      for (std::uint32_t k = 0; k < outputs; ++k)
        rows[term.batch->residual_row(i) - end.first_row + k] = {t, k, i};
  }
  return rows;
}

/// Gradients of some rows over the free scalars that they read.
Eigen::MatrixXd gradients(const ConstrainedEnd& end, std::span<const RowInstance> rows,
                          std::span<const std::size_t> chosen) {
  std::map<std::uint32_t, std::vector<double>> jacobians;
  std::map<std::uint32_t, Eigen::Index> columns;
  std::vector<Eigen::Triplet<double>> entries;
  const std::vector<std::uint8_t>& constant = end.model.model.constant;
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    const RowInstance& row = rows[chosen[k]];
    const runtime::Term& term = end.model.model.terms[row.term];
    const std::uint32_t slots = term.batch->parameter_columns();
    const std::size_t outputs = constraint_outputs(end.model, row.term);
    std::vector<double>& values = jacobians[row.term];
    if (values.empty()) values = constraint_jacobian(end.model, end.engine, row.term, end.point);
    for (std::uint32_t s = 0; s < slots; ++s) {
      const std::uint32_t scalar = term.batch->index(row.instance, s);
      if (!constant.empty() && constant[scalar] != 0) continue;
      const auto column = columns.try_emplace(scalar, static_cast<Eigen::Index>(columns.size()));
      entries.emplace_back(static_cast<Eigen::Index>(k), column.first->second,
                           values[(row.instance * outputs + row.output) * slots + s]);
    }
  }
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(chosen.size()),
                                              static_cast<Eigen::Index>(columns.size()));
  for (const auto& entry : entries) out(entry.row(), entry.col()) += entry.value();
  return out;
}

/// Marks rows whose gradients are combinations of those of rows before them.
std::vector<bool> dependent_rows(const ConstrainedEnd& end, std::span<const RowInstance> rows) {
  std::vector<bool> out(rows.size(), false);
  std::vector<std::size_t> active;
  const auto is_equality = [&](std::size_t row) {
    return end.problem.kind(end.model.topologies[rows[row].term]) == BlockKind::equality;
  };
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (!end.fixed[row] && (is_equality(row) || end.multipliers[row] > 0)) active.push_back(row);
  if (active.size() < 2 || active.size() > kMostExaminedRows) return out;
  const Eigen::MatrixXd gradient = gradients(end, rows, active);
  std::vector<Eigen::VectorXd> basis;
  for (std::size_t k = 0; k < active.size(); ++k) {
    Eigen::VectorXd rest = gradient.row(static_cast<Eigen::Index>(k)).transpose();
    const double length = rest.norm();
    for (int twice = 0; twice < 2; ++twice)
      for (const Eigen::VectorXd& unit : basis) rest -= unit.dot(rest) * unit;
    if (rest.norm() <= kDependent * length) {
      out[active[k]] = true;
    } else {
      basis.push_back(rest / rest.norm());
    }
  }
  return out;
}

/// Facts about the rows of one label and kind.
struct RowsOfLabel {
  bool all_fixed = true;
  bool one_outside = false;
  bool one_violated = false;
};

ConstraintOutcome outcome_of(const ConstraintSummary& of, const RowsOfLabel& rows,
                             const ConstrainedEnd& end) {
  if (rows.one_outside) return ConstraintOutcome::outside;
  const bool starts_outside = std::ranges::find(end.outside, true) != end.outside.end();
  if (rows.one_violated)
    return end.infeasible && !starts_outside ? ConstraintOutcome::infeasible
                                             : ConstraintOutcome::violated;
  if (rows.all_fixed) return ConstraintOutcome::fixed;
  if (of.redundant > 0) return ConstraintOutcome::redundant;
  return of.active > 0 ? ConstraintOutcome::active : ConstraintOutcome::inactive;
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

void for_each_constraint_row(ConstrainedRun& run,
                             const std::function<void(const ConstraintRow&)>& f) {
  const ProblemModel& model = run.model;
  const std::uint64_t first = run.penalties.first_row();
  const runtime::Engine& engine = run.inner.engine(runtime::Pass::cost);
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    if (!is_constraint(model.problem->kind(model.topologies[t]))) continue;
    const ir::Batch& batch = *model.model.terms[t].batch;
    const std::size_t outputs = constraint_outputs(model, t), slots = batch.parameter_columns();
    const std::vector<double> J = constraint_jacobian(model, engine, t, run.inner.point());
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t k = 0; k < outputs; ++k)
        f({.batch = batch,
           .instance = i,
           .row = batch.residual_row(i) - first + k,
           .derivatives = std::span(J).subspan((i * outputs + k) * slots, slots)});
  }
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

void balance_multipliers(ConstrainedRun& run, std::span<const std::size_t> rows,
                         std::vector<double> gradient) {
  std::vector<double> units;
  for (const std::size_t row : rows) units.push_back(run.scale[row]);
  const std::vector<double> before = run.multipliers;
  fit_multipliers(run, {.rows = rows, .units = units, .kept = 0}, gradient);
  if (run.projected_max(gradient) < run.stationarity)
    run.measure_stationarity(gradient);
  else
    run.multipliers = before;
}

double violation_left(ConstrainedRun& run) {
  if (!run.space.blocks().empty()) return 1;
  const runtime::Engine& engine = run.inner.engine(runtime::Pass::cost);
  const std::span<const double> x = run.inner.point();
  const auto rows_at = [&](std::span<const double> at) {
    Eigen::VectorXd out = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(run.rows()));
    const std::vector<double> c =
        constraint_values(run.model, engine, run.penalties.first_row(), at);
    for (std::size_t row = 0; row < c.size(); ++row)
      out[static_cast<Eigen::Index>(row)] =
          run.scale[row] * (run.equality[row] ? c[row] : std::min(0.0, c[row]));
    return out;
  };
  const Eigen::VectorXd here = rows_at(x);
  std::vector<std::size_t> violated;
  std::vector<double> units;
  for (std::size_t row = 0; row < run.rows(); ++row) {
    if (!run.equality[row] && here[static_cast<Eigen::Index>(row)] == 0) continue;
    violated.push_back(row);
    units.push_back(run.scale[row]);
  }
  if (violated.empty()) return 1;
  Eigen::VectorXd c(static_cast<Eigen::Index>(violated.size()));
  for (std::size_t k = 0; k < violated.size(); ++k)
    c[static_cast<Eigen::Index>(k)] = here[static_cast<Eigen::Index>(violated[k])];
  const ColumnMatrix all = scaled_gradients(run, {.rows = violated, .units = units, .kept = 0});
  const Eigen::VectorXd gradient = all * c;
  const ColumnMatrix free_coordinates =
      projection(run, {gradient.data(), static_cast<std::size_t>(gradient.size())});
  const ColumnMatrix derivatives = ColumnMatrix(free_coordinates * all).transpose();
  const Eigen::VectorXd step = free_coordinates.transpose() * least_squares(derivatives, -c);
  if (!step.allFinite()) return 1;
  double left = 1;
  for (const double length : {1.0, 0.5, 0.25, 0.125}) {
    std::vector<double> there(x.begin(), x.end());
    for (std::size_t k = 0; k < there.size(); ++k) {
      there[k] += length * step[static_cast<Eigen::Index>(k)];
      if (!run.model.model.lower.empty())
        there[k] = std::clamp(there[k], run.model.model.lower[k], run.model.model.upper[k]);
    }
    const double share = rows_at(there).norm() / here.norm();
    if (share < left) left = share;  // not NaN
  }
  return left;
}

std::string constraint_name(const Problem& problem, const ProblemModel& model, std::uint64_t row) {
  for (std::size_t t = 0; t < model.topologies.size(); ++t) {
    const std::size_t topology = model.topologies[t];
    if (!is_constraint(problem.kind(topology))) continue;
    const runtime::Term& term = model.model.terms[t];
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      if (row - term.batch->residual_row(i) >= constraint_outputs(model, t)) continue;
      std::string label(problem.label(topology, i));
      if (label.empty())
        label = std::string(noun(problem.kind(topology))) + std::to_string(topology);
      return "constraint \"" + label + "\" #" + std::to_string(i);
    }
  }
  return "constraint";
}

std::vector<ConstraintSummary> summarise(const ConstrainedEnd& end) {
  const std::vector<RowInstance> rows = rows_of(end);
  const std::vector<bool> dependent = dependent_rows(end, rows);
  std::vector<ConstraintSummary> out;
  std::vector<RowsOfLabel> labels;
  std::map<std::pair<std::string, BlockKind>, std::size_t> numbers;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t topology = end.model.topologies[rows[row].term];
    const BlockKind kind = end.problem.kind(topology);
    const std::string label(end.problem.label(topology, rows[row].instance));
    const auto [at, added] = numbers.try_emplace({label, kind}, out.size());
    if (added) {
      out.push_back({.label = label, .kind = kind});
      labels.push_back({});
    }
    ConstraintSummary& one = out[at->second];
    RowsOfLabel& label_rows = labels[at->second];
    label_rows.all_fixed = label_rows.all_fixed && end.fixed[row];
    label_rows.one_outside = label_rows.one_outside || end.outside[row];
    label_rows.one_violated =
        label_rows.one_violated || !(end.violation[row] <= end.tolerance[row]);
    ++one.rows;
    one.active += kind == BlockKind::equality || end.multipliers[row] > 0 ? 1 : 0;
    one.redundant += dependent[row] ? 1 : 0;
    one.violation = std::max(one.violation, end.violation[row]);
    one.largest_multiplier = std::max(one.largest_multiplier, std::abs(end.multipliers[row]));
    one.multipliers.push_back(end.multipliers[row]);
  }
  for (std::size_t k = 0; k < out.size(); ++k) out[k].outcome = outcome_of(out[k], labels[k], end);
  return out;
}

}  // namespace topograd
