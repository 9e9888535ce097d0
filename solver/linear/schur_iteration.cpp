// Conjugate gradients on the Schur complement of blocks that are eliminated each by itself.
#include <topograd/solver/linear/factorization.hpp>

#include <topograd/solver/linear/schur_parts.hpp>

#include <Eigen/Cholesky>

#include <atomic>
#include <cstdint>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::size_t kRowsPerRange = 64;

/// S = B − Eᵀ C⁻¹ E by its products, with the inverses of its diagonal blocks.
class IterativeSchur final : public Factorization {
 public:
  IterativeSchur(const SparseMatrix& lower, const Elimination& elimination,
                 const SchurIteration& limits, int threads)
      : parts_(lower, elimination, threads), limits_(limits), y_(lower.cols()) {
    std::uint32_t first = 0;
    std::size_t entries = 0;
    for (const Elimination::Block& block : elimination.remaining) {
      diagonal_.push_back({first, block.width, entries});
      first += block.width;
      entries += std::size_t{block.width} * block.width;
    }
    inverses_.resize(entries);
    find_rows();
  }

  bool factor(const SparseMatrix& lower) override {
    if (!parts_.eliminate(lower.valuePtr())) return false;
    B_.resize(B_rows_.items.size());
    for (std::size_t k = 0; k < B_.size(); ++k) B_[k] = lower.valuePtr()[B_rows_.items[k].position];
    return invert_diagonal();
  }

  Vector solve(const Vector& right) const override {
    return parts_.expand(iterate(parts_.reduce(right)), right);
  }
  int iterations() const override { return iterations_; }
  double entries() const override {
    return static_cast<double>(parts_.entries() + inverses_.size() + B_rows_.items.size());
  }

 private:
  struct Diagonal {
    std::uint32_t first, width;  // kept columns
    std::size_t inverse;         // where its inverse begins
  };

  void find_rows();
  bool invert_diagonal();
  Matrix diagonal_block(const Diagonal& at) const;
  Vector multiply(const Vector& p) const;
  Vector precondition(const Vector& r) const;
  Vector iterate(const Vector& right) const;

  SchurParts parts_;
  SchurIteration limits_;
  Lists<SchurLayout::Entry> B_rows_;  // by kept column, of both triangles
  std::vector<double> B_;             // values of these
  std::vector<Diagonal> diagonal_;
  std::vector<double> inverses_;
  mutable Vector y_;  // C⁻¹ E p, by columns of the matrix
  mutable int iterations_ = 0;
};

void IterativeSchur::find_rows() {
  const SchurLayout& layout = parts_.layout();
  std::vector<std::vector<SchurLayout::Entry>> rows(parts_.kept());
  for (std::uint32_t c = 0; c < rows.size(); ++c) {
    for (const SchurLayout::Entry& entry : layout.B[c]) {
      rows[c].push_back(entry);
      if (entry.row != c) rows[entry.row].push_back({c, entry.position});
    }
  }
  for (const auto& row : rows) {
    B_rows_.items.insert(B_rows_.items.end(), row.begin(), row.end());
    B_rows_.close();
  }
}

Matrix IterativeSchur::diagonal_block(const Diagonal& at) const {
  const SchurLayout& layout = parts_.layout();
  Matrix S = Matrix::Zero(at.width, at.width);
  for (std::uint32_t i = 0; i < at.width; ++i) {
    const std::uint32_t c = at.first + i;
    for (std::size_t k = B_rows_.starts[c]; k < B_rows_.starts[c + 1]; ++k) {
      const std::uint32_t row = B_rows_.items[k].row - at.first;  // wraps where it lies before
      if (row < at.width) S(row, i) += B_[k];
    }
    for (const SchurLayout::Use& use : layout.uses[c]) {
      const std::span<const std::uint32_t> columns = layout.neighbours[use.block];
      const SchurParts::Block E = parts_.E(use.block), W = parts_.W(use.block);
      for (std::size_t k = use.at; k < columns.size() && columns[k] - at.first < at.width; ++k) {
        const double product = E.col(static_cast<Eigen::Index>(k)).dot(W.col(use.at));
        S(columns[k] - at.first, i) -= product;
        if (k != use.at) S(i, columns[k] - at.first) -= product;
      }
    }
  }
  return S;
}

bool IterativeSchur::invert_diagonal() {
  std::atomic<bool> definite = true;
  parts_.pool().for_ranges(diagonal_.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t d = begin; d < end; ++d) {
      const Diagonal& at = diagonal_[d];
      const Eigen::LLT<Matrix, Eigen::Lower> factor(diagonal_block(at));
      if (factor.info() != Eigen::Success) definite = false;
      Eigen::Map<Matrix>(inverses_.data() + at.inverse, at.width, at.width) =
          factor.solve(Matrix::Identity(at.width, at.width));
    }
  });
  return definite;
}

Vector IterativeSchur::precondition(const Vector& r) const {
  Vector z(r.size());
  for (const Diagonal& at : diagonal_) {
    const Eigen::Map<const Matrix> inverse(inverses_.data() + at.inverse, at.width, at.width);
    z.segment(at.first, at.width).noalias() = inverse * r.segment(at.first, at.width);
  }
  return z;
}

Vector IterativeSchur::multiply(const Vector& p) const {
  const SchurLayout& layout = parts_.layout();
  const std::size_t blocks = layout.blocks.size(), n = parts_.kept();
  parts_.pool().for_ranges(blocks, kRowsPerRange, [&](std::size_t begin, std::size_t end) {
    for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
      const std::span<const std::uint32_t> columns = layout.neighbours[b];
      const SchurParts::Block W = parts_.W(b);
      auto y = y_.segment(layout.blocks[b].first, layout.blocks[b].width);
      y.setZero();
      for (std::size_t k = 0; k < columns.size(); ++k)
        y += W.col(static_cast<Eigen::Index>(k)) * p[columns[k]];
    }
  });
  Vector q(p.size());
  parts_.pool().for_ranges(n, kRowsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      double sum = 0;
      for (std::size_t k = B_rows_.starts[c]; k < B_rows_.starts[c + 1]; ++k)
        sum += B_[k] * p[B_rows_.items[k].row];
      for (const SchurLayout::Use& use : layout.uses[c]) {
        const Elimination::Block& block = layout.blocks[use.block];
        sum -= parts_.E(use.block).col(use.at).dot(y_.segment(block.first, block.width));
      }
      q[static_cast<Eigen::Index>(c)] = sum;
    }
  });
  return q;
}

Vector IterativeSchur::iterate(const Vector& right) const {
  Vector x = Vector::Zero(right.size()), r = right, z = precondition(r), p = z;
  const double target = limits_.tolerance * right.norm();
  double rz = r.dot(z);
  for (iterations_ = 0; iterations_ < limits_.max_iterations && r.norm() > target; ++iterations_) {
    const Vector q = multiply(p);
    const double curvature = p.dot(q);
    if (!(curvature > 0)) break;
    x += rz / curvature * p;
    r -= rz / curvature * q;
    z = precondition(r);
    const double before = rz;
    rz = r.dot(z);
    p = z + rz / before * p;
  }
  return x;
}

}  // namespace

std::unique_ptr<Factorization> make_iterative_schur(const SparseMatrix& pattern,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits, int threads) {
  return std::make_unique<IterativeSchur>(pattern, elimination, limits, threads);
}

}  // namespace topograd
