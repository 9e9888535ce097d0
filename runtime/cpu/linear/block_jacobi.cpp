// Inverting and applying small symmetric blocks.
#include "block_jacobi.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>

namespace topograd::runtime::cpu {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor,
                             kWidestDenseBlock, kWidestDenseBlock>;

double positive_or_one(double v) {
  return v > 0 && v < std::numeric_limits<double>::infinity() ? v : 1;
}

// The damped block without its fixed scalars.
template <class T>
Matrix damped(std::uint32_t width, const T* packed, const T* damping,
              const std::uint8_t* constant) {
  Matrix block(width, width);
  for (std::uint32_t i = 0; i < width; ++i) {
    for (std::uint32_t j = i; j < width; ++j) {
      const bool out = constant != nullptr && (constant[i] != 0 || constant[j] != 0);
      double value = out ? (i == j ? 1.0 : 0.0) : double{packed[packed_index(width, i, j)]};
      if (i == j && !out) value += double{damping[i]};
      block(i, j) = block(j, i) = value;
    }
  }
  return block;
}

// One column of L⁻ᵀ L⁻¹, which begins as that of the identity. Eigen's own solves sum in an order
// that depends on the processor's registers; this is the order for registers of two numbers.
void solve_column(const Matrix& L, double* v) {
  constexpr Eigen::Index kPanel = 4;
  const Eigen::Index width = L.rows();
  for (Eigen::Index first = 0; first < width; first += kPanel) {
    const Eigen::Index end = std::min(first + kPanel, width);
    for (Eigen::Index j = first; j < end; ++j) {
      double sum = 0;
      for (Eigen::Index p = 0; p < first; ++p) sum += v[p] * L(j, p);
      v[j] -= sum;
      for (Eigen::Index p = first; p < j; ++p) v[j] -= v[p] * L(j, p);
      v[j] *= 1 / L(j, j);
    }
  }
  const Eigen::Index rest = width % kPanel;
  for (Eigen::Index end = width, first = width - (rest > 0 ? rest : kPanel); end > 0;
       end = first, first -= kPanel) {
    for (Eigen::Index j = end; j-- > first;) {
      double sum = 0;
      for (Eigen::Index p = end; p < width; ++p) sum += v[p] * L(p, j);
      v[j] -= sum;
      for (Eigen::Index p = j + 1; p < end; ++p) v[j] -= v[p] * L(p, j);
      v[j] *= 1 / L(j, j);
    }
  }
}

Matrix inverse_of(const Matrix& block) {
  const Eigen::Index width = block.rows();
  const Eigen::LLT<Matrix> factor(block);
  if (factor.info() == Eigen::Success) {
    Matrix columns = Matrix::Identity(width, width);  // by rows: the inverse is symmetric
    for (Eigen::Index k = 0; k < width; ++k) solve_column(factor.matrixLLT(), &columns(k, 0));
    Matrix inverse = columns.transpose();
    if (inverse.allFinite()) return inverse;
  }
  return Matrix(
      block.diagonal().unaryExpr([](double v) { return 1 / positive_or_one(v); }).asDiagonal());
}

template <class T>
void invert_dense(std::uint32_t width, const T* packed, const T* damping,
                  const std::uint8_t* constant, T* inverse) {
  const Matrix m = inverse_of(damped(width, packed, damping, constant));
  for (std::uint32_t i = 0; i < width; ++i) {
    for (std::uint32_t j = i; j < width; ++j) {
      inverse[packed_index(width, i, j)] = static_cast<T>(m(i, j));
    }
  }
}

template <class T>
void invert_diagonal(std::uint32_t width, const T* diagonal, const T* damping,
                     const std::uint8_t* constant, T* inverse) {
  for (std::uint32_t i = 0; i < width; ++i) {
    const bool out = constant != nullptr && constant[i] != 0;
    const double value = out ? 1.0 : double{diagonal[i]} + double{damping[i]};
    inverse[i] = static_cast<T>(1 / positive_or_one(value));
  }
}

template <class T>
void multiply_diagonal(std::uint64_t n, const T* inverse, const T* r, T* z) {
  for (std::uint64_t i = 0; i < n; ++i) z[i] = inverse[i] * r[i];
}

// z = inverse · r for `count` neighbouring blocks; W is the width, or 0 if unknown at compile time.
template <std::uint32_t W, class T>
void multiply_dense(std::uint32_t width, std::uint32_t count, const T* inverse, const T* r, T* z) {
  const std::uint32_t w = W == 0 ? width : W;
  for (std::uint32_t k = 0; k < count; ++k, inverse += packed_size(w), r += w, z += w) {
    for (std::uint32_t i = 0; i < w; ++i) {
      T sum = 0;
      for (std::uint32_t j = 0; j < w; ++j) {
        sum += inverse[packed_index(w, std::min(i, j), std::max(i, j))] * r[j];
      }
      z[i] = sum;
    }
  }
}

template <class T>
void multiply(std::uint32_t width, std::uint32_t count, const T* inverse, const T* r, T* z) {
  if (width == 1 || width > kWidestDenseBlock) {
    return multiply_diagonal(std::uint64_t{width} * count, inverse, r, z);
  }
  switch (width) {
    case 2: return multiply_dense<2>(width, count, inverse, r, z);
    case 3: return multiply_dense<3>(width, count, inverse, r, z);
    case 4: return multiply_dense<4>(width, count, inverse, r, z);
    case 6: return multiply_dense<6>(width, count, inverse, r, z);
    default: return multiply_dense<0>(width, count, inverse, r, z);
  }
}

}  // namespace

template <class T>
std::size_t BlockJacobi<T>::ranges() const {
  return sums_->of_blocks().size();
}

template <class T>
auto BlockJacobi<T>::range(std::size_t k) const -> Range {
  const SumRanges::Range& range = sums_->of_blocks()[k];
  return {range.first, range.end};
}

template <class T>
void BlockJacobi<T>::build(Pool& pool, const StepSystem<T>& system) {
  const BlockLayout& layout = system.layout;
  const T *const blocks = system.blocks, *const damping = system.damping;
  const std::span<const std::uint8_t> constant = system.fixed;
  layout_ = &layout;
  sums_ = &system.sums;
  if (inverse_.size() != layout.packed_scalars()) inverse_ = Column<T>(layout.packed_scalars());
  pool.for_ranges(layout.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    layout.for_runs(begin, end, [&](BlockLayout::Block block, std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) {
        const std::uint8_t* fixed = constant.empty() ? nullptr : constant.data() + block.first;
        const auto invert = block.width > kWidestDenseBlock ? invert_diagonal<T> : invert_dense<T>;
        invert(block.width, blocks + block.packed, damping + block.first, fixed,
               inverse_.data() + block.packed);
        block.first += block.width;
        block.packed += packed_size(block.width);
      }
    });
  });
}

template <class T>
void BlockJacobi<T>::apply(std::size_t k, const T* r, T* z) const {
  const SumRanges::Range& range = sums_->of_blocks()[k];
  layout_->for_runs(range.first_block, range.end_block,
                    [&](const BlockLayout::Block& block, std::uint32_t count) {
                      multiply(block.width, count, inverse_.data() + block.packed, r + block.first,
                               z + block.first);
                    });
}

template <class T>
std::vector<MemoryUse> BlockJacobi<T>::memory() const {
  return {{"diagonal blocks", inverse_.size() * sizeof(T), 0}};
}

template <class T>
std::unique_ptr<StepPreconditioner<T>> make_block_jacobi(Preconditioner, Bits) {
  return std::make_unique<BlockJacobi<T>>();
}
template std::unique_ptr<StepPreconditioner<float>> make_block_jacobi(Preconditioner, Bits);
template std::unique_ptr<StepPreconditioner<double>> make_block_jacobi(Preconditioner, Bits);

template class BlockJacobi<float>;
template class BlockJacobi<double>;

}  // namespace topograd::runtime::cpu
