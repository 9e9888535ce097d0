// Factorisation by the Schur complement of blocks that are eliminated each by itself.
#include <topograd/solver/linear/factorization.hpp>

#include <topograd/runtime/cpu/pool.hpp>

#include <Eigen/Cholesky>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};
constexpr std::size_t kBlocksPerRange = 64, kColumnsPerRange = 8;
/// A complement up to this size, or with this share of its entries there, is held as a dense one.
constexpr std::size_t kSmall = 1000;
constexpr double kFull = 0.2;
constexpr std::size_t kLargestDense = 10'000;

/// Lists of various lengths, one after the other.
template <class T>
struct Lists {
  std::vector<std::size_t> starts{0};
  std::vector<T> items;

  void close() { starts.push_back(items.size()); }
  std::size_t size(std::size_t k) const { return starts[k + 1] - starts[k]; }
  const T* begin(std::size_t k) const { return items.data() + starts[k]; }
  std::span<const T> operator[](std::size_t k) const { return {begin(k), size(k)}; }
};

/// Where the parts of the matrix lie in its values: C of the blocks, E beside them, B of the rest.
struct Layout {
  Layout(const SparseMatrix& lower, const Elimination& elimination);

  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> column;      // of the matrix, by kept column
  Lists<std::uint32_t> neighbours;        // kept columns that a block meets, ascending
  std::vector<std::size_t> E;             // of a block's (width, neighbours) positions, by columns
  std::vector<std::uint32_t> E_position;  // kNone where there is no entry
  std::vector<std::size_t> C;             // of a block's (width, width) positions: lower triangle
  std::vector<std::uint32_t> C_position;
  struct Entry {
    std::uint32_t row, position;
  };
  Lists<Entry> B;  // by kept column: rows from the diagonal on
  struct Use {
    std::uint32_t block, at;  // the column is neighbours[block][at]
  };
  Lists<Use> uses;  // by kept column

 private:
  void find_neighbours(const SparseMatrix& lower);
  void find_uses();
  void place_entries(const SparseMatrix& lower);

  std::vector<std::uint32_t> block_of, place;  // by column: its block or kNone; its place there
};

Layout::Layout(const SparseMatrix& lower, const Elimination& elimination)
    : blocks(elimination.blocks),
      block_of(static_cast<std::size_t>(lower.cols()), kNoEntry),
      place(block_of.size()) {
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (std::uint32_t k = 0; k < blocks[b].width; ++k) {
      block_of[blocks[b].first + k] = b;
      place[blocks[b].first + k] = k;
    }
  }
  for (std::uint32_t c = 0; c < block_of.size(); ++c) {
    if (block_of[c] != kNoEntry) continue;
    place[c] = static_cast<std::uint32_t>(column.size());
    column.push_back(c);
  }
  find_neighbours(lower);
  find_uses();
  place_entries(lower);
}

void Layout::find_neighbours(const SparseMatrix& lower) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // block, kept column
  for (std::uint32_t c = 0; c < block_of.size(); ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const auto r = static_cast<std::uint32_t>(it.row());
      if ((block_of[c] == kNoEntry) == (block_of[r] == kNoEntry)) continue;
      if (block_of[c] != kNoEntry) pairs.emplace_back(block_of[c], place[r]);
      if (block_of[r] != kNoEntry) pairs.emplace_back(block_of[r], place[c]);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  auto next = pairs.begin();
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (; next != pairs.end() && next->first == b; ++next)
      neighbours.items.push_back(next->second);
    neighbours.close();
  }
}

void Layout::find_uses() {
  std::vector<std::vector<Use>> by_column(column.size());
  for (std::uint32_t b = 0; b < blocks.size(); ++b)
    for (std::uint32_t k = 0; k < neighbours.size(b); ++k)
      by_column[neighbours[b][k]].push_back({b, k});
  for (const std::vector<Use>& of : by_column) {
    uses.items.insert(uses.items.end(), of.begin(), of.end());
    uses.close();
  }
}

void Layout::place_entries(const SparseMatrix& lower) {
  std::size_t e = 0, c = 0;
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    E.push_back(e);
    C.push_back(c);
    e += blocks[b].width * neighbours.size(b);
    c += std::size_t{blocks[b].width} * blocks[b].width;
  }
  E_position.assign(e, kNoEntry);
  C_position.assign(c, kNoEntry);
  const auto set_E = [&](std::uint32_t in_block, std::uint32_t kept, std::uint32_t position) {
    const std::uint32_t b = block_of[in_block];
    const auto list = neighbours[b];
    const auto at = std::lower_bound(list.begin(), list.end(), place[kept]) - list.begin();
    E_position[E[b] + static_cast<std::size_t>(at) * blocks[b].width + place[in_block]] = position;
  };
  for (std::uint32_t k = 0; k < block_of.size(); ++k) {
    for (auto p = static_cast<std::uint32_t>(lower.outerIndexPtr()[k]);
         p < static_cast<std::uint32_t>(lower.outerIndexPtr()[k + 1]); ++p) {
      const auto r = static_cast<std::uint32_t>(lower.innerIndexPtr()[p]);
      const std::uint32_t b = block_of[k];
      if (b == kNoEntry && block_of[r] == kNoEntry) {
        B.items.push_back({place[r], p});
      } else if (b == kNoEntry) {
        set_E(r, k, p);
      } else if (block_of[r] == kNoEntry) {
        set_E(k, r, p);
      } else {
        C_position[C[b] + std::size_t{place[k]} * blocks[b].width + place[r]] = p;
      }
    }
    if (block_of[k] == kNoEntry) B.close();
  }
}

class Schur final : public Factorization {
 public:
  Schur(const SparseMatrix& lower, const Elimination& elimination, int threads)
      : layout_(lower, elimination),
        pool_(threads),
        E_(layout_.E_position.size()),
        W_(E_.size()),
        inverse_(layout_.C_position.size()) {
    const std::size_t n = layout_.column.size();
    find_complement();
    const double full = 0.5 * static_cast<double>(n) * static_cast<double>(n);
    if (n <= kSmall ||
        (n <= kLargestDense && static_cast<double>(complement_.nonZeros()) > kFull * full)) {
      dense_.emplace(Matrix::Zero(static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)));
    } else {
      sparse_ = make_sparse_factorization(complement_);
    }
  }

  bool factor(const SparseMatrix& lower) override {
    if (!eliminate(lower.valuePtr())) return false;
    sum_complement(lower.valuePtr());
    if (layout_.column.empty()) return true;
    if (!dense_) return sparse_->factor(complement_);
    for (Eigen::Index c = 0; c < complement_.cols(); ++c)
      for (SparseMatrix::InnerIterator it(complement_, c); it; ++it)
        (*dense_)(it.row(), c) = it.value();
    dense_factor_.compute(*dense_);
    return dense_factor_.info() == Eigen::Success;
  }

  Vector solve(const Vector& right) const override;

  double entries() const override {
    const double n = static_cast<double>(layout_.column.size());
    return static_cast<double>(E_.size()) + (dense_ ? n * n / 2 : sparse_->entries());
  }
  double flops() const override {
    const double n = static_cast<double>(layout_.column.size());
    double products = 0;
    for (std::size_t b = 0; b < layout_.blocks.size(); ++b) {
      const auto f = static_cast<double>(layout_.neighbours.size(b));
      products += f * f * layout_.blocks[b].width;
    }
    return products + (dense_ ? n * n * n / 3 : sparse_->flops());
  }

 private:
  using Block = Eigen::Map<const Matrix>;

  Block part(const std::vector<double>& values, std::uint32_t b) const {
    return {values.data() + layout_.E[b], layout_.blocks[b].width,
            static_cast<Eigen::Index>(layout_.neighbours.size(b))};
  }
  Block inverse(std::uint32_t b) const {
    return {inverse_.data() + layout_.C[b], layout_.blocks[b].width, layout_.blocks[b].width};
  }

  void find_complement();
  bool eliminate(const double* values);
  void sum_complement(const double* values);

  Layout layout_;
  mutable runtime::cpu::Pool pool_;
  std::vector<double> E_, W_;    // of each block: E, and C⁻¹ E
  std::vector<double> inverse_;  // C⁻¹
  SparseMatrix complement_;      // lower triangle
  std::optional<Matrix> dense_;  // the same, where it is held dense
  Eigen::LLT<Matrix, Eigen::Lower> dense_factor_;
  std::unique_ptr<Factorization> sparse_;
};

/// Pattern: kept columns that meet, by themselves or through a block.
void Schur::find_complement() {
  const auto n = static_cast<std::uint32_t>(layout_.column.size());
  std::vector<int> starts{0}, rows;
  std::vector<std::uint32_t> seen(n, kNoEntry);
  for (std::uint32_t c = 0; c < n; ++c) {
    const auto add = [&](std::uint32_t r) {
      if (r >= c && std::exchange(seen[r], c) != c) rows.push_back(static_cast<int>(r));
    };
    for (const Layout::Entry& entry : layout_.B[c]) add(entry.row);
    for (const Layout::Use& use : layout_.uses[c])
      for (const std::uint32_t r : layout_.neighbours[use.block]) add(r);
    std::sort(rows.begin() + starts.back(), rows.end());
    starts.push_back(static_cast<int>(rows.size()));
  }
  const std::vector<double> zeros(rows.size());
  complement_ = Eigen::Map<const SparseMatrix>(n, n, static_cast<Eigen::Index>(rows.size()),
                                               starts.data(), rows.data(), zeros.data());
}

bool Schur::eliminate(const double* values) {
  std::atomic<bool> definite = true;
  pool_.for_ranges(layout_.blocks.size(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    const auto value = [&](std::uint32_t position) {
      return position == kNoEntry ? 0.0 : values[position];
    };
    for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
      const Eigen::Index w = layout_.blocks[b].width;
      const auto f = static_cast<Eigen::Index>(layout_.neighbours.size(b));
      Eigen::Map<Matrix> E(E_.data() + layout_.E[b], w, f), W(W_.data() + layout_.E[b], w, f);
      Eigen::Map<Matrix> C(inverse_.data() + layout_.C[b], w, w);
      for (Eigen::Index k = 0; k < w * f; ++k)
        E.data()[k] = value(layout_.E_position[layout_.E[b] + static_cast<std::size_t>(k)]);
      for (Eigen::Index k = 0; k < w * w; ++k)
        C.data()[k] = value(layout_.C_position[layout_.C[b] + static_cast<std::size_t>(k)]);
      const Eigen::LLT<Matrix, Eigen::Lower> factor(C);
      if (factor.info() != Eigen::Success) definite = false;
      C = factor.solve(Matrix::Identity(w, w));
      W.noalias() = C * E;
    }
  });
  return definite;
}

void Schur::sum_complement(const double* values) {
  const std::size_t n = layout_.column.size();
  pool_.for_ranges(n, kColumnsPerRange, [&](std::size_t begin, std::size_t end) {
    std::vector<double> sums(n);
    for (std::size_t c = begin; c < end; ++c) {
      for (const Layout::Entry& entry : layout_.B[c]) sums[entry.row] = values[entry.position];
      for (const Layout::Use& use : layout_.uses[c]) {
        const Block E = part(E_, use.block), W = part(W_, use.block);
        const std::span<const std::uint32_t> rows = layout_.neighbours[use.block];
        for (std::size_t k = use.at; k < rows.size(); ++k)
          sums[rows[k]] -= E.col(static_cast<Eigen::Index>(k)).dot(W.col(use.at));
      }
      const auto column = static_cast<Eigen::Index>(c);
      for (SparseMatrix::InnerIterator it(complement_, column); it; ++it)
        it.valueRef() = std::exchange(sums[static_cast<std::size_t>(it.row())], 0.0);
    }
  });
}

Vector Schur::solve(const Vector& right) const {
  const std::size_t n = layout_.column.size();
  const auto segment = [&](const Vector& v, std::uint32_t b) {
    return v.segment(layout_.blocks[b].first, layout_.blocks[b].width);
  };
  Vector kept(static_cast<Eigen::Index>(n));
  pool_.for_ranges(n, kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      double sum = right[layout_.column[c]];
      for (const Layout::Use& use : layout_.uses[c])
        sum -= part(W_, use.block).col(use.at).dot(segment(right, use.block));
      kept[static_cast<Eigen::Index>(c)] = sum;
    }
  });
  if (n > 0) kept = dense_ ? Vector(dense_factor_.solve(kept)) : sparse_->solve(kept);
  Vector out(right.size());
  for (std::size_t c = 0; c < n; ++c) out[layout_.column[c]] = kept[static_cast<Eigen::Index>(c)];
  pool_.for_ranges(layout_.blocks.size(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
      Vector x = inverse(b) * segment(right, b);
      const std::span<const std::uint32_t> columns = layout_.neighbours[b];
      const Block W = part(W_, b);
      for (std::size_t k = 0; k < columns.size(); ++k)
        x -= W.col(static_cast<Eigen::Index>(k)) * kept[columns[k]];
      out.segment(layout_.blocks[b].first, layout_.blocks[b].width) = x;
    }
  });
  return out;
}

}  // namespace

std::unique_ptr<Factorization> make_schur_factorization(const SparseMatrix& pattern,
                                                        const Elimination& elimination,
                                                        int threads) {
  return std::make_unique<Schur>(pattern, elimination, threads);
}

}  // namespace topograd
