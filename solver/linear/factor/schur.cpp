// Factorisation by the Schur complement of separately eliminated blocks.
#include "factorization.hpp"

#include "panel.hpp"
#include "schur_parts.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};
/// A range of panels has one more panel for this many rows, so that clearing a panel stays cheap.
constexpr std::size_t kRowsPerPanel = 2048;
/// A complement up to this size, or with at least this share of entries, is stored densely.
constexpr std::size_t kSmall = 1000;
constexpr double kFull = 0.2;
constexpr std::size_t kLargestDense = 10'000;

class Schur final : public Factorization {
 public:
  Schur(const SparseMatrix& lower, const Elimination& elimination, int threads)
      : parts_(lower, elimination, threads) {
    const std::size_t n = parts_.kept();
    find_complement();
    const double full = 0.5 * static_cast<double>(n) * static_cast<double>(n);
    if (n <= kSmall ||
        (n <= kLargestDense && static_cast<double>(complement_.nonZeros()) > kFull * full)) {
      dense_.emplace(Matrix::Zero(static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)));
    } else {
      sparse_ = make_sparse_factorization(complement_, threads);
    }
  }

  bool factor(const SparseMatrix& lower) override {
    if (!parts_.eliminate(lower.valuePtr())) return false;
    sum_complement(lower.valuePtr());
    if (parts_.kept() == 0) return true;
    if (!dense_) return sparse_->factor(complement_);
    for (Eigen::Index c = 0; c < complement_.cols(); ++c)
      for (SparseMatrix::InnerIterator it(complement_, c); it; ++it)
        (*dense_)(it.row(), c) = it.value();
    dense_factor_.compute(*dense_);
    return dense_factor_.info() == Eigen::Success;
  }

  Vector solve(const Vector& right) const override {
    Vector kept = parts_.reduce(right);
    if (kept.size() > 0) kept = dense_ ? Vector(dense_factor_.solve(kept)) : sparse_->solve(kept);
    return parts_.expand(kept, right);
  }

  double entries() const override {
    const double n = static_cast<double>(parts_.kept());
    return static_cast<double>(parts_.entries()) + (dense_ ? n * n / 2 : sparse_->entries());
  }
  double flops() const override {
    const double n = static_cast<double>(parts_.kept());
    const SchurLayout& layout = parts_.layout();
    double products = 0;
    for (std::size_t b = 0; b < layout.blocks.size(); ++b) {
      const auto f = static_cast<double>(layout.neighbours.size(b));
      products += f * f * layout.blocks[b].width;
    }
    return products + (dense_ ? n * n * n / 3 : sparse_->flops());
  }

 private:
  void find_complement();
  void sum_complement(const double* values);
  void sum_panel(const double* values, std::uint32_t first, std::uint32_t last, Panel& panel);

  SchurParts parts_;
  SparseMatrix complement_;      // lower triangle
  std::optional<Matrix> dense_;  // the same, if it is stored densely
  Eigen::LLT<Matrix, Eigen::Lower> dense_factor_;
  std::unique_ptr<Factorization> sparse_;
};

/// Finds the pattern: kept columns that meet, directly or through a block.
void Schur::find_complement() {
  const SchurLayout& layout = parts_.layout();
  const auto n = static_cast<std::uint32_t>(layout.column.size());
  std::vector<int> starts{0}, rows;
  std::vector<std::uint32_t> seen(n, kNoColumn);
  for (std::uint32_t c = 0; c < n; ++c) {
    const auto add = [&](std::uint32_t r) {
      if (r >= c && std::exchange(seen[r], c) != c) rows.push_back(static_cast<int>(r));
    };
    for (const SchurLayout::Entry& entry : layout.B[c]) add(entry.row);
    for (const SchurLayout::Use& use : layout.uses[c])
      for (const std::uint32_t r : layout.neighbours[use.block]) add(r);
    std::sort(rows.begin() + starts.back(), rows.end());
    starts.push_back(static_cast<int>(rows.size()));
  }
  const std::vector<double> zeros(rows.size());
  complement_ = Eigen::Map<const SparseMatrix>(n, n, static_cast<Eigen::Index>(rows.size()),
                                               starts.data(), rows.data(), zeros.data());
}

void Schur::sum_complement(const double* values) {
  const std::span<const std::uint32_t> panels = parts_.layout().panels;
  const std::size_t grain = 1 + parts_.kept() / kRowsPerPanel;
  parts_.pool().for_ranges(panels.size() - 1, grain, [&](std::size_t begin, std::size_t end) {
    Panel panel;
    for (std::size_t k = begin; k < end; ++k) sum_panel(values, panels[k], panels[k + 1], panel);
  });
}

void Schur::sum_panel(const double* values, std::uint32_t first, std::uint32_t last, Panel& panel) {
  const SchurLayout& layout = parts_.layout();
  panel.open(parts_.kept(), last - first);
  for (std::uint32_t c = first; c < last; ++c)
    for (const SchurLayout::Entry& entry : layout.B[c])
      panel.at(entry.row, c - first) = values[entry.position];
  for (const SchurLayout::Use& use : layout.uses[first]) {
    const SchurParts::Block E = parts_.coupling(use.block), W = parts_.solved_coupling(use.block);
    const auto depth = static_cast<std::size_t>(E.rows());
    panel.set_right({W.data() + use.at * depth, 1, depth}, static_cast<std::uint32_t>(depth), -1);
    const std::span<const std::uint32_t> rows = layout.neighbours[use.block];
    for (std::size_t k = use.at, end = k; k < rows.size(); k = end) {  // runs of adjacent rows
      while (end < rows.size() && rows[end] == rows[k] + (end - k)) ++end;
      panel.add(rows[k], end - k, {E.data() + k * depth, 1, depth});
    }
  }
  const int* const starts = complement_.outerIndexPtr();
  for (std::uint32_t c = first; c < last; ++c) {
    for (int k = starts[c]; k < starts[c + 1]; ++k) {
      double& entry = panel.at(static_cast<std::size_t>(complement_.innerIndexPtr()[k]), c - first);
      complement_.valuePtr()[k] = std::exchange(entry, 0.0);
    }
  }
  for (std::uint32_t c = first; c < last; ++c) panel.clear(c);  // above the diagonal
}

}  // namespace

std::unique_ptr<Factorization> make_schur_factorization(
    const SparseMatrix& pattern, const Elimination& elimination, int threads,
    const std::optional<SchurIteration>& limits) {
  if (limits) return make_iterative_schur(pattern, elimination, *limits, threads);
  return std::make_unique<Schur>(pattern, elimination, threads);
}

}  // namespace topograd
