// Conjugate gradients on the Schur complement of separately eliminated blocks.
#include "factorization.hpp"

#include "../../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "schur_parts.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::size_t kRowsPerRange = 64;
/// Largest number of ranges of eliminated blocks; each has fewer sums than a quarter of the entries
/// that it reads.
constexpr std::size_t kMostRanges = 64;

/// Adjacent columns of E that belong to one kept block.
struct Run {
  std::uint32_t block, at;      // an eliminated block, and the first column among its neighbours
  std::uint32_t column, count;  // kept columns
  std::uint32_t kept;           // their block
};

/// y += A p for the columns of a run; `rows` is the width if it is known at compile time, else 0.
template <int rows>
void add_product(const double* A, std::uint32_t width, const Run& run, const double* p, double* y) {
  const std::uint32_t w = rows > 0 ? rows : width;
  for (std::uint32_t k = 0; k < run.count; ++k)
    for (std::uint32_t i = 0; i < w; ++i) y[i] += A[k * w + i] * p[k];
}

/// q −= Aᵀ y for the same columns.
template <int rows>
void subtract_transposed(const double* A, std::uint32_t width, const Run& run, const double* y,
                         double* q) {
  const std::uint32_t w = rows > 0 ? rows : width;
  for (std::uint32_t k = 0; k < run.count; ++k) {
    double sum = 0;
    for (std::uint32_t i = 0; i < w; ++i) sum += A[k * w + i] * y[i];
    q[k] -= sum;
  }
}

/// Products with S = B − Eᵀ C⁻¹ E, and the inverses of its diagonal blocks.
class IterativeSchur final : public Factorization {
 public:
  IterativeSchur(const SparseMatrix& lower, const Elimination& elimination,
                 const SchurIteration& limits, const runtime::cpu::CpuWork& work)
      : parts_(lower, elimination, work.threads), limits_(limits), bits_(work.bits) {
    std::uint32_t first = 0;
    std::size_t entries = 0;
    for (const Elimination::Block& block : elimination.remaining) {
      diagonal_.push_back({first, block.width, entries});
      first += block.width;
      entries += std::size_t{block.width} * block.width;
    }
    inverses_.resize(entries);
    find_rows();
    find_runs();
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
    std::size_t inverse;         // start of its inverse
  };

  /// The inverses of the diagonal blocks, as one range.
  class Blocks final : public runtime::cpu::HostPreconditioner<double> {
   public:
    explicit Blocks(const IterativeSchur& of) : of_(of) {}
    std::size_t ranges() const override { return 1; }
    Range range(std::size_t) const override { return {0, of_.parts_.kept()}; }
    void apply(std::size_t, const double* r, double* z) const override { of_.precondition(r, z); }

   private:
    const IterativeSchur& of_;
  };

  void find_rows();
  void find_runs();
  std::size_t first_of_range(std::size_t r) const {
    return parts_.layout().blocks.size() * r / ranges_;
  }
  std::span<const Run> runs_of_range(std::size_t r) const {
    const std::size_t first = runs_.starts[first_of_range(r)];
    return {runs_.items.data() + first, runs_.starts[first_of_range(r + 1)] - first};
  }
  const double* columns_of(const SchurParts::Block& part, const Run& run) const {
    return part.data() + std::size_t{run.at} * width_of(run);
  }
  std::uint32_t width_of(const Run& run) const { return parts_.layout().blocks[run.block].width; }
  bool invert_diagonal();
  template <int rows>
  void sum_diagonal() const;
  Matrix diagonal_block(const Diagonal& at) const;
  double multiply(const double* p, double* q) const;
  template <int rows>
  void add_eliminated(const double* p) const;
  void precondition(const double* r, double* z) const;
  Vector iterate(const Vector& right) const;

  SchurParts parts_;
  SchurIteration limits_;
  codegen::Bits bits_;
  Lists<Complement::Entry> B_rows_;  // by kept column, of both triangles
  std::vector<double> B_;            // values of these
  std::vector<Diagonal> diagonal_;
  Lists<Run> runs_;  // by eliminated block
  std::vector<double> inverses_;
  std::size_t ranges_ = 1;            // of eliminated blocks
  std::uint32_t widest_ = 0;          // of these
  mutable std::vector<double> sums_;  // by range: −Eᵀ C⁻¹ E p, or diagonal blocks
  mutable runtime::cpu::CgVectors<double> vectors_;
  mutable int iterations_ = 0;
  std::uint32_t width_ = 0;  // of all eliminated blocks, 0 if they differ
};

void IterativeSchur::find_rows() {
  std::vector<std::vector<Complement::Entry>> rows(parts_.kept());
  for (std::uint32_t c = 0; c < rows.size(); ++c) {
    for (const Complement::Entry& entry : parts_.positions().B[c]) {
      rows[c].push_back(entry);
      if (entry.row != c) rows[entry.row].push_back({c, entry.position});
    }
  }
  for (const auto& row : rows) {
    B_rows_.items.insert(B_rows_.items.end(), row.begin(), row.end());
    B_rows_.close();
  }
}

void IterativeSchur::find_runs() {
  const SchurLayout& layout = parts_.layout();
  std::vector<std::uint32_t> kept_block(parts_.kept());
  for (std::uint32_t d = 0; d < diagonal_.size(); ++d)
    std::fill_n(kept_block.begin() + diagonal_[d].first, diagonal_[d].width, d);
  for (std::uint32_t b = 0; b < layout.blocks.size(); ++b) {
    const std::span<const std::uint32_t> columns = layout.neighbours[b];
    for (std::uint32_t at = 0, end = 0; at < columns.size(); at = end) {
      const std::uint32_t first = columns[at], d = kept_block[first];
      while (end < columns.size() && columns[end] == first + (end - at) &&
             kept_block[columns[end]] == d)
        ++end;
      runs_.items.push_back({b, at, first, end - at, d});
    }
    runs_.close();
    widest_ = std::max(widest_, layout.blocks[b].width);
    width_ = b == 0 || width_ == layout.blocks[b].width ? layout.blocks[b].width : 0;
  }
  const std::size_t n = parts_.kept();
  const std::size_t most = std::max(n, inverses_.size());
  if (n > 0) ranges_ = std::clamp<std::size_t>(parts_.entries() / (4 * most), 1, kMostRanges);
  sums_.resize(ranges_ * most);
}

/// Each range of eliminated blocks has its own sums, so that E is read in order. Ranges depend on
/// the matrix alone, and their sums are added in order.
template <int rows>
void IterativeSchur::sum_diagonal() const {
  parts_.pool().for_ranges(ranges_, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      double* sums = sums_.data() + r * inverses_.size();
      std::fill_n(sums, inverses_.size(), 0.0);
      for (const Run& left : runs_of_range(r)) {
        const Diagonal& at = diagonal_[left.kept];
        const double* E = columns_of(parts_.coupling(left.block), left);
        for (const Run& right : runs_[left.block]) {
          if (right.kept != left.kept) continue;
          const double* W = columns_of(parts_.solved_coupling(right.block), right);
          const std::uint32_t w = rows > 0 ? rows : width_of(left);
          for (std::uint32_t j = 0; j < right.count; ++j)
            subtract_transposed<rows>(E, w, left, W + std::size_t{j} * w,
                                      sums + at.inverse + left.column - at.first +
                                          std::size_t{right.column - at.first + j} * at.width);
        }
      }
    }
  });
}

Matrix IterativeSchur::diagonal_block(const Diagonal& at) const {
  Matrix S = Matrix::Zero(at.width, at.width);
  for (std::uint32_t i = 0; i < at.width; ++i) {
    const std::uint32_t c = at.first + i;
    for (std::size_t k = B_rows_.starts[c]; k < B_rows_.starts[c + 1]; ++k) {
      const std::uint32_t row = B_rows_.items[k].row - at.first;  // wraps if the row is before it
      if (row < at.width) S(row, i) += B_[k];
    }
  }
  for (std::size_t r = 0; r < ranges_; ++r)
    S += Eigen::Map<const Matrix>(sums_.data() + r * inverses_.size() + at.inverse, at.width,
                                  at.width);
  return S;
}

bool IterativeSchur::invert_diagonal() {
  if (width_ == 3) {
    sum_diagonal<3>();  // of points in space
  } else {
    sum_diagonal<0>();
  }
  std::atomic<bool> definite = true;
  parts_.pool().for_ranges(diagonal_.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t d = begin; d < end; ++d) {
      const Diagonal& at = diagonal_[d];
      const Eigen::LLT<Matrix, Eigen::Lower> factor(diagonal_block(at));
      if (factor.info() != Eigen::Success) definite = false;
      Eigen::Map<Matrix> inverse(inverses_.data() + at.inverse, at.width, at.width);
      inverse = Matrix::Identity(at.width, at.width);
      if (bits_ == codegen::Bits::native) {
        factor.solveInPlace(inverse);
        continue;
      }
      // Several columns at a time have sums in an order that depends on the processor's registers.
      for (Eigen::Index k = 0; k < inverse.cols(); ++k) factor.solveInPlace(inverse.col(k));
    }
  });
  return definite;
}

void IterativeSchur::precondition(const double* r, double* z) const {
  for (const Diagonal& at : diagonal_) {
    const Eigen::Map<const Matrix> inverse(inverses_.data() + at.inverse, at.width, at.width);
    Eigen::Map<Vector>(z + at.first, at.width).noalias() =
        inverse * Eigen::Map<const Vector>(r + at.first, at.width);
  }
}

/// Also by sums of ranges: E is read once.
template <int rows>
void IterativeSchur::add_eliminated(const double* p) const {
  const SchurLayout& layout = parts_.layout();
  const std::size_t n = parts_.kept();
  parts_.pool().for_ranges(ranges_, 1, [&](std::size_t begin, std::size_t end) {
    std::vector<double> Ep(widest_), y(widest_);
    for (std::size_t r = begin; r < end; ++r) {
      double* sums = sums_.data() + r * n;
      std::fill_n(sums, n, 0.0);
      for (std::size_t k = first_of_range(r); k < first_of_range(r + 1); ++k) {
        const auto b = static_cast<std::uint32_t>(k);
        const std::uint32_t w = rows > 0 ? rows : layout.blocks[b].width;
        const SchurParts::Block E = parts_.coupling(b), inverse = parts_.inverse(b);
        std::fill_n(Ep.data(), w, 0.0);
        for (const Run& run : runs_[b])
          add_product<rows>(columns_of(E, run), w, run, p + run.column, Ep.data());
        std::fill_n(y.data(), w, 0.0);
        add_product<rows>(inverse.data(), w, {b, 0, 0, w, 0}, Ep.data(), y.data());
        for (const Run& run : runs_[b])
          subtract_transposed<rows>(columns_of(E, run), w, run, y.data(), sums + run.column);
      }
    }
  });
}

double IterativeSchur::multiply(const double* p, double* q) const {
  if (width_ == 3) {
    add_eliminated<3>(p);  // points in space
  } else {
    add_eliminated<0>(p);
  }
  const std::size_t n = parts_.kept();
  parts_.pool().for_ranges(n, kRowsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      double sum = 0;
      for (std::size_t k = B_rows_.starts[c]; k < B_rows_.starts[c + 1]; ++k)
        sum += B_[k] * p[B_rows_.items[k].row];
      for (std::size_t r = 0; r < ranges_; ++r) sum += sums_[r * n + c];
      q[c] = sum;
    }
  });
  const auto size = static_cast<Eigen::Index>(n);
  return Eigen::Map<const Vector>(p, size).dot(Eigen::Map<const Vector>(q, size));
}

Vector IterativeSchur::iterate(const Vector& right) const {
  namespace cpu = runtime::cpu;
  auto matrix =
      cpu::product_by<double>([this](const double* p, double* q) { return multiply(p, q); });
  Blocks blocks(*this);
  vectors_.resize(parts_.kept());
  std::copy_n(right.data(), right.size(), vectors_.residual.data());
  Vector x(right.size());
  iterations_ = cpu::conjugate_gradients(parts_.pool(), matrix, blocks, vectors_, x.data(),
                                         {.tolerance = limits_.tolerance,
                                          .in_energy = limits_.energy_norm,
                                          .max_iterations = limits_.max_iterations,
                                          .eta = limits_.eta,
                                          .order = cpu::SumOrder::packets})
                    .iterations;
  return x;
}

}  // namespace

std::unique_ptr<Factorization> make_iterative_schur(const SparseMatrix& pattern,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits,
                                                    const runtime::cpu::CpuWork& work) {
  return std::make_unique<IterativeSchur>(pattern, elimination, limits, work);
}

}  // namespace topograd
