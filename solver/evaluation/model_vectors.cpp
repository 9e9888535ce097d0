// Entries of sparse matrices from an engine's dense ones.
#include "model_vectors.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "../host/host_engine.hpp"

namespace topograd {
namespace {

using Entries = std::vector<Eigen::Triplet<double>>;

/// The columns of an instance, in their order, with the slots that add to them.
class InstanceColumns {
 public:
  void assign(const runtime::Term& term, const ModelVectors& vectors, std::size_t instance) {
    columns_.clear();
    for (std::uint32_t slot = 0; slot < term.batch->parameter_columns(); ++slot) {
      const std::uint32_t scalar = term.batch->index(instance, slot);
      if (!vectors.is_fixed(scalar)) columns_.emplace_back(scalar, slot);
    }
    if (!std::is_sorted(columns_.begin(), columns_.end()))
      std::sort(columns_.begin(), columns_.end());
    distinct_ = 0;
    for (std::size_t k = 0; k < columns_.size(); ++k) distinct_ += is_new(k);
  }
  int distinct() const { return distinct_; }

  /// Writes one row of the instance's dense matrix as `distinct()` columns and numbers.
  void write(std::span<const double> row, int* columns, double* numbers) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const double value = row[columns_[k].second];
      if (is_new(k)) {
        columns[at] = static_cast<int>(columns_[k].first);
        numbers[at++] = value;
      } else {
        numbers[at - 1] += value;
      }
    }
  }

 private:
  bool is_new(std::size_t k) const { return k == 0 || columns_[k].first != columns_[k - 1].first; }

  std::vector<std::pair<std::uint32_t, std::uint32_t>> columns_;
  int distinct_ = 0;
};

/// Calls f(t, term) for the terms that have rows.
template <class F>
void for_residual_terms(const runtime::Model& model, const F& f) {
  for (std::size_t t = 0; t < model.terms.size(); ++t)
    if (!model.terms[t].energy) f(t, model.terms[t]);
}

/// Entries of blocks of the host by row and column; those at the same position are one.
Entries host_entries(const EvaluatedProblem& problem, const ModelVectors& vectors) {
  if (!problem.has_host_blocks()) return {};
  HostEngine& host = *problem.session().host;
  host.evaluate_host();
  const auto for_free = [&](const auto& f) {
    host.host().for_entries([&](std::uint64_t row, std::uint32_t scalar, double entry) {
      if (!vectors.is_fixed(scalar)) f(row, scalar, entry);
    });
  };
  // The entries of a block come column by column.
  std::vector<std::size_t> begins(problem.model().rows + 1);
  for_free([&](std::uint64_t row, std::uint32_t, double) { ++begins[row + 1]; });
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  Entries entries(begins.back());
  std::vector<std::size_t> ends(begins.begin(), begins.end() - 1);
  for_free([&](std::uint64_t row, std::uint32_t scalar, double entry) {
    entries[ends[row]++] = {static_cast<int>(row), static_cast<int>(scalar), entry};
  });
  const auto by_column = [](const auto& a, const auto& b) { return a.col() < b.col(); };
  for (std::size_t row = 0; row < ends.size(); ++row) {
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(begins[row]);
    const auto last = entries.begin() + static_cast<std::ptrdiff_t>(ends[row]);
    if (!std::is_sorted(first, last, by_column)) std::stable_sort(first, last, by_column);
  }
  const auto position = [](const auto& entry) { return std::pair(entry.row(), entry.col()); };
  std::size_t kept = 0;
  for (const auto& entry : entries) {
    if (kept > 0 && position(entries[kept - 1]) == position(entry))
      entries[kept - 1] = {entry.row(), entry.col(), entries[kept - 1].value() + entry.value()};
    else
      entries[kept++] = entry;
  }
  entries.resize(kept);
  return entries;
}

}  // namespace

/// Rows belong to one instance each, so that they are written where they stay.
Evaluator::SparseMatrix sparse_jacobian(runtime::Engine& engine, const EvaluatedProblem& problem) {
  const runtime::Model& model = problem.model();
  const ModelVectors vectors(model);
  Evaluator::SparseMatrix out(static_cast<Eigen::Index>(model.rows),
                              static_cast<Eigen::Index>(model.scalars));
  const Entries of_host = host_entries(problem, vectors);
  InstanceColumns columns;
  int* const starts = out.outerIndexPtr();
  for_residual_terms(model, [&](std::size_t, const runtime::Term& term) {
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      columns.assign(term, vectors, i);
      const std::uint64_t first = term.batch->residual_row(i);
      for (std::size_t row = 0; row < term.topology->program.outputs.size(); ++row)
        starts[first + row + 1] = columns.distinct();
    }
  });
  for (const auto& entry : of_host) ++starts[entry.row() + 1];
  std::partial_sum(starts, starts + out.outerSize() + 1, starts);
  out.resizeNonZeros(starts[out.outerSize()]);
  std::vector<double> values;
  for_residual_terms(model, [&](std::size_t t, const runtime::Term& term) {
    const std::size_t outputs = term.topology->program.outputs.size();
    const std::size_t n = term.batch->parameter_columns();
    values.resize(term.batch->size() * outputs * n);
    engine.jacobian(t, values);
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      columns.assign(term, vectors, i);
      const std::uint64_t first = term.batch->residual_row(i);
      for (std::size_t row = 0; row < outputs; ++row) {
        columns.write(std::span(values).subspan((i * outputs + row) * n, n),
                      out.innerIndexPtr() + starts[first + row],
                      out.valuePtr() + starts[first + row]);
      }
    }
  });
  int row = -1, at = 0;
  for (const auto& entry : of_host) {
    if (entry.row() != row) {
      row = entry.row();
      at = starts[row];
    }
    out.innerIndexPtr()[at] = entry.col();
    out.valuePtr()[at++] = entry.value();
  }
  return out;
}

NormalEquations& SquareMatrices::current(Lower& matrix, bool with_energies) {
  if (!matrix.lower || matrix.revision != problem_.revision())
    matrix.lower.emplace(problem_.model(), with_energies);
  matrix.revision = problem_.revision();
  return *matrix.lower;
}

void SquareMatrices::refresh_jtj(runtime::Engine& engine) { current(jtj_, false).refresh(engine); }

void SquareMatrices::refresh_hessian(runtime::Engine& engine, bool project_psd) {
  current(hessian_, true).refresh_hessian(engine, project_psd);
}

Evaluator::SparseMatrix SquareMatrices::both_triangles(const NormalEquations& lower) const {
  Entries entries;
  entries.reserve(2 * lower.values().size());
  for (std::size_t c = 0; c < lower.size(); ++c) {
    const auto column = static_cast<int>(lower.free_scalars()[c]);
    for (std::int32_t k = lower.starts()[c]; k < lower.starts()[c + 1]; ++k) {
      const auto row = static_cast<int>(lower.free_scalars()[lower.rows()[k]]);
      entries.emplace_back(row, column, lower.values()[k]);
      if (row != column) entries.emplace_back(column, row, lower.values()[k]);
    }
  }
  const auto size = static_cast<Eigen::Index>(problem_.model().scalars);
  Evaluator::SparseMatrix out(size, size);
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

}  // namespace topograd
