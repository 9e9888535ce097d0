// Entries of sparse matrices from an engine's dense ones.
#include "sparse_derivatives.hpp"

#include "../host/host_engine.hpp"
#include "model_vectors.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace topograd {
namespace {

using Entries = std::vector<Eigen::Triplet<double>>;

void append_entries(const runtime::Term& term, const ModelVectors& vectors, std::size_t instance,
                    std::span<const double> values, Entries& entries) {
  const std::uint32_t n = term.batch->parameter_columns();
  const std::uint64_t first = term.batch->residual_row(instance);
  for (std::uint32_t slot = 0; slot < n; ++slot) {
    const std::uint32_t scalar = term.batch->index(instance, slot);
    if (vectors.is_fixed(scalar)) continue;
    for (std::size_t row = 0; row * n < values.size(); ++row) {
      entries.emplace_back(static_cast<int>(first + row), static_cast<int>(scalar),
                           values[row * n + slot]);
    }
  }
}

void append_host_entries(HostEngine& host, const ModelVectors& vectors, Entries& entries) {
  host.evaluate_host();
  host.host().for_entries([&](std::uint64_t row, std::uint32_t scalar, double entry) {
    if (!vectors.is_fixed(scalar))
      entries.emplace_back(static_cast<int>(row), static_cast<int>(scalar), entry);
  });
}

}  // namespace

Evaluator::SparseMatrix sparse_jacobian(runtime::Engine& engine, const EvaluatedProblem& problem) {
  const runtime::Model& model = problem.model();
  const ModelVectors vectors(model);
  Evaluator::SparseMatrix out(static_cast<Eigen::Index>(model.rows),
                              static_cast<Eigen::Index>(model.scalars));
  Entries entries;
  std::vector<double> values;
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    if (term.energy) continue;
    const std::size_t size =
        term.topology->program.outputs.size() * term.batch->parameter_columns();
    values.resize(term.batch->size() * size);
    engine.jacobian(t, values);
    for (std::size_t i = 0; i < term.batch->size(); ++i)
      append_entries(term, vectors, i, std::span(values).subspan(i * size, size), entries);
  }
  if (problem.has_host_blocks()) append_host_entries(*problem.session().host, vectors, entries);
  out.setFromTriplets(entries.begin(), entries.end());
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
