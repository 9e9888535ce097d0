// Gathers rows of constraints by label, and looks for dependent gradients.
#include "constraint_report.hpp"

#include "constraint_values.hpp"

#include <Eigen/Dense>
#include <Eigen/SparseCore>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace topograd {
namespace {

// A gradient that has less than this share of its length outside of the others' span depends on
// them.
constexpr double kDependent = 1e-8;

/// One row of the constraints.
struct RowPlace {
  std::uint32_t term = 0;
  std::uint32_t output = 0;
  std::size_t instance = 0;
};

std::vector<RowPlace> rows_of(const ConstrainedEnd& end) {
  std::vector<RowPlace> rows(end.multipliers.size());
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
Eigen::MatrixXd gradients(const ConstrainedEnd& end, std::span<const RowPlace> rows,
                          std::span<const std::size_t> chosen) {
  std::map<std::uint32_t, std::vector<double>> jacobians;
  std::map<std::uint32_t, Eigen::Index> columns;
  std::vector<Eigen::Triplet<double>> entries;
  const std::vector<std::uint8_t>& constant = end.model.model.constant;
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    const RowPlace& place = rows[chosen[k]];
    const runtime::Term& term = end.model.model.terms[place.term];
    const std::uint32_t slots = term.batch->parameter_columns();
    const std::size_t outputs = constraint_outputs(end.model, place.term);
    std::vector<double>& values = jacobians[place.term];
    if (values.empty()) values = constraint_jacobian(end.model, end.engine, place.term, end.point);
    for (std::uint32_t s = 0; s < slots; ++s) {
      const std::uint32_t scalar = term.batch->index(place.instance, s);
      if (!constant.empty() && constant[scalar] != 0) continue;
      const auto column = columns.try_emplace(scalar, static_cast<Eigen::Index>(columns.size()));
      entries.emplace_back(static_cast<Eigen::Index>(k), column.first->second,
                           values[(place.instance * outputs + place.output) * slots + s]);
    }
  }
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(chosen.size()),
                                              static_cast<Eigen::Index>(columns.size()));
  for (const auto& entry : entries) out(entry.row(), entry.col()) += entry.value();
  return out;
}

/// Marks rows whose gradients are combinations of those of rows before them.
std::vector<bool> dependent_rows(const ConstrainedEnd& end, std::span<const RowPlace> rows) {
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
  const std::vector<RowPlace> rows = rows_of(end);
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
