// Factorisation by the Schur complement of separately eliminated blocks, or iterations on it.
#include "factorization.hpp"

#include "../../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "complement.hpp"
#include "elimination.hpp"
#include "lists.hpp"
#include "panel.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// Positions of the parts in the values of a matrix.
struct SchurPositions {
  SchurPositions(const SparseMatrix& lower, const SchurLayout& layout);

  std::vector<std::uint32_t> E;  // from SchurLayout::E on, by columns; kNoEntry if there is none
  std::vector<std::uint32_t> C;  // from SchurLayout::C on: lower triangles
  Lists<Complement::Entry> B;
  static constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};
};

/// Eliminates blocks separately and in parallel: C of the blocks, E next to them, B of the rest,
/// Schur complement S = B − Eᵀ C⁻¹ E. Results do not depend on the number of threads.
class SchurParts {
 public:
  using Block = Eigen::Map<const Eigen::MatrixXd>;

  ///   threads  0 = all
  SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads);

  const SchurLayout& layout() const { return layout_; }
  const SchurPositions& positions() const { return positions_; }
  runtime::cpu::Pool& pool() const { return pool_; }
  std::size_t kept() const { return layout_.column.size(); }
  std::size_t entries() const { return E_.size(); }                     ///< of E
  Block coupling(std::uint32_t b) const { return part(E_, b); }         ///< E
  Block solved_coupling(std::uint32_t b) const { return part(W_, b); }  ///< W = C⁻¹ E
  Block inverse(std::uint32_t b) const {                                ///< C⁻¹
    return {inverse_.data() + layout_.C[b], layout_.blocks[b].width, layout_.blocks[b].width};
  }

  Complement::Couplings couplings() const { return {E_.data(), W_.data()}; }

  /// Eliminates with values of the lower triangle. False if a block is not positive definite.
  bool eliminate(const double* values);
  /// Computes the right side of the kept columns.
  Eigen::VectorXd reduce(const Eigen::VectorXd& right) const;
  /// Computes all columns from the solution of the kept ones.
  Eigen::VectorXd expand(const Eigen::VectorXd& kept, const Eigen::VectorXd& right) const;

 private:
  /// `rows` is the width of the block if it is known at compile time, else Eigen::Dynamic.
  template <int rows>
  bool eliminate_block(const double* values, std::uint32_t b);
  Block part(const std::vector<double>& values, std::uint32_t b) const {
    return {values.data() + layout_.E[b], layout_.blocks[b].width,
            static_cast<Eigen::Index>(layout_.neighbours.size(b))};
  }
  SchurLayout layout_;
  SchurPositions positions_;
  mutable runtime::cpu::Pool pool_;
  std::vector<double> E_, W_;    // of each block: E, and C⁻¹ E
  std::vector<double> inverse_;  // C⁻¹
};

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::size_t kEliminatedPerRange = 64;
constexpr std::size_t kPanelsPerRange = 4;

SchurLayout layout_of(const SparseMatrix& lower, const Elimination& elimination) {
  const auto columns = static_cast<std::uint32_t>(lower.cols());
  const auto positions = SchurLayout::positions_of(elimination.blocks, columns);
  std::vector<std::vector<std::uint32_t>> lists(elimination.blocks.size());
  const auto add = [&](std::uint32_t b, std::uint32_t kept) {
    std::vector<std::uint32_t>& list = lists[b];
    if (list.empty() || list.back() != kept) list.push_back(kept);  // other columns of the block
  };
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const SchurLayout::Position &a = positions[c],
                                  &b = positions[static_cast<std::uint32_t>(it.row())];
      if ((a.block == SchurLayout::kNone) == (b.block == SchurLayout::kNone)) continue;
      if (a.block != SchurLayout::kNone) add(a.block, b.at);
      if (b.block != SchurLayout::kNone) add(b.block, a.at);
    }
  }
  Lists<std::uint32_t> neighbours;
  for (std::vector<std::uint32_t>& list : lists) {
    std::sort(list.begin(), list.end());
    neighbours.items.insert(neighbours.items.end(), list.begin(),
                            std::unique(list.begin(), list.end()));
    neighbours.close();
  }
  return {elimination.blocks, columns, std::move(neighbours)};
}

SchurPositions::SchurPositions(const SparseMatrix& lower, const SchurLayout& layout)
    : E(layout.E.back(), kNoEntry), C(layout.C.back(), kNoEntry) {
  const auto columns = static_cast<std::uint32_t>(lower.cols());
  const auto positions = SchurLayout::positions_of(layout.blocks, columns);
  const auto set_E = [&](const SchurLayout::Position& in, std::uint32_t kept,
                         std::uint32_t position) {
    const auto list = layout.neighbours[in.block];
    const auto at = std::lower_bound(list.begin(), list.end(), kept) - list.begin();
    E[layout.E[in.block] + static_cast<std::size_t>(at) * layout.blocks[in.block].width + in.at] =
        position;
  };
  for (std::uint32_t k = 0; k < columns; ++k) {
    const SchurLayout::Position& column = positions[k];
    for (auto p = static_cast<std::uint32_t>(lower.outerIndexPtr()[k]);
         p < static_cast<std::uint32_t>(lower.outerIndexPtr()[k + 1]); ++p) {
      const SchurLayout::Position& row =
          positions[static_cast<std::uint32_t>(lower.innerIndexPtr()[p])];
      const std::uint32_t b = column.block;
      if (b == SchurLayout::kNone && row.block == SchurLayout::kNone) {
        B.items.push_back({row.at, p});
      } else if (b == SchurLayout::kNone) {
        set_E(row, column.at, p);
      } else if (row.block == SchurLayout::kNone) {
        set_E(column, row.at, p);
      } else {
        C[layout.C[b] + std::size_t{column.at} * layout.blocks[b].width + row.at] = p;
      }
    }
    if (column.block == SchurLayout::kNone) B.close();
  }
}

SchurParts::SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads)
    : layout_(layout_of(lower, elimination)),
      positions_(lower, layout_),
      pool_(threads),
      E_(layout_.E.back()),
      W_(layout_.E.back()),
      inverse_(layout_.C.back()) {}

template <int rows>
bool SchurParts::eliminate_block(const double* values, std::uint32_t b) {
  using Square = Eigen::Matrix<double, rows, rows>;
  using Wide = Eigen::Matrix<double, rows, Eigen::Dynamic>;
  const auto value = [&](std::uint32_t position) {
    return position == SchurPositions::kNoEntry ? 0.0 : values[position];
  };
  const Eigen::Index w = layout_.blocks[b].width;
  const auto f = static_cast<Eigen::Index>(layout_.neighbours.size(b));
  double* const e = E_.data() + layout_.E[b];
  double* const c = inverse_.data() + layout_.C[b];
  const std::uint32_t* const E_position = positions_.E.data() + layout_.E[b];
  const std::uint32_t* const C_position = positions_.C.data() + layout_.C[b];
  for (Eigen::Index k = 0; k < w * f; ++k) e[k] = value(E_position[k]);
  for (Eigen::Index k = 0; k < w * w; ++k) c[k] = value(C_position[k]);
  Eigen::Map<Square> C(c, w, w);
  const Eigen::LLT<Square, Eigen::Lower> factor(C);
  C = factor.solve(Square::Identity(w, w));
  Eigen::Map<Wide>(W_.data() + layout_.E[b], w, f) = C.lazyProduct(Eigen::Map<Wide>(e, w, f));
  return factor.info() == Eigen::Success;
}

bool SchurParts::eliminate(const double* values) {
  std::atomic<bool> definite = true;
  pool_.for_ranges(
      layout_.blocks.size(), kEliminatedPerRange, [&](std::size_t begin, std::size_t end) {
        for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
          const bool in_space = layout_.blocks[b].width == 3;  // points
          const bool positive =
              in_space ? eliminate_block<3>(values, b) : eliminate_block<Eigen::Dynamic>(values, b);
          if (!positive) definite = false;
        }
      });
  return definite;
}

Vector SchurParts::reduce(const Vector& right) const {
  Vector out(static_cast<Eigen::Index>(kept()));
  const std::span<const std::uint32_t> panels = layout_.panels;
  pool_.for_ranges(panels.size() - 1, kPanelsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const std::uint32_t first = panels[p], columns = panels[p + 1] - first;
      std::array<double, Panel::kMostColumns> sums;
      for (std::uint32_t j = 0; j < columns; ++j) sums[j] = right[layout_.column[first + j]];
      for (const SchurLayout::Use& use : layout_.uses[first]) {
        const auto [start, width] = layout_.blocks[use.block];
        const double* w = W_.data() + layout_.E[use.block] + std::size_t{use.at} * width;
        for (std::uint32_t j = 0; j < columns; ++j, w += width) {
          double product = 0;
          for (std::uint32_t i = 0; i < width; ++i) product += w[i] * right[start + i];
          sums[j] -= product;
        }
      }
      std::copy_n(sums.begin(), columns, out.data() + first);
    }
  });
  return out;
}

Vector SchurParts::expand(const Vector& kept, const Vector& right) const {
  Vector out(right.size());
  for (std::size_t c = 0; c < layout_.column.size(); ++c)
    out[layout_.column[c]] = kept[static_cast<Eigen::Index>(c)];
  const std::size_t blocks = layout_.blocks.size();
  pool_.for_ranges(blocks, kEliminatedPerRange, [&](std::size_t begin, std::size_t end) {
    for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
      const auto [first, width] = layout_.blocks[b];
      Vector x = inverse(b) * right.segment(first, width);
      const std::span<const std::uint32_t> columns = layout_.neighbours[b];
      const Block of = solved_coupling(b);
      for (std::size_t k = 0; k < columns.size(); ++k)
        x -= of.col(static_cast<Eigen::Index>(k)) * kept[columns[k]];
      out.segment(first, width) = x;
    }
  });
  return out;
}

class Schur final : public Factorization {
 public:
  Schur(const SparseMatrix& lower, const Elimination& elimination,
        const runtime::cpu::CpuWork& work)
      : parts_(lower, elimination, work.threads),
        complement_(parts_.layout(), parts_.positions().B, work) {}

  bool factor(const SparseMatrix& lower) override {
    return parts_.eliminate(lower.valuePtr()) &&
           complement_.factor(lower.valuePtr(), parts_.couplings());
  }

  Eigen::VectorXd solve(const Eigen::VectorXd& right) const override {
    return parts_.expand(complement_.solve(parts_.reduce(right)), right);
  }

  double entries() const override {
    return static_cast<double>(parts_.entries()) + complement_.entries();
  }
  double flops() const override { return complement_.products() + complement_.flops(); }

 private:
  SchurParts parts_;
  Complement complement_;
};

}  // namespace

std::unique_ptr<Factorization> make_schur_factorization(
    const SparseMatrix& pattern, const Elimination& elimination, const runtime::cpu::CpuWork& work,
    const std::optional<SchurIteration>& limits) {
  if (limits) return make_iterative_schur(pattern, elimination, *limits, work);
  return std::make_unique<Schur>(pattern, elimination, work);
}

namespace {

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
  void stop_at(const SchurIteration& rule) override { limits_ = rule; }
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
