// Blocks on manifolds on the CPU.
#include "cpu_manifolds.hpp"

#include "../../ir/op.hpp"
#include "tiles/column.hpp"

#include <algorithm>
#include <array>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kTilesPerRange = 8;

/// Calls f(b) for all blocks.
template <class F>
void for_all(Pool& pool, std::size_t blocks, const F& f) {
  pool.for_ranges(blocks, kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) f(b);
  });
}

}  // namespace

template <class T>
CpuManifolds<T>::Kind::Kind(const ManifoldBlocks& of, const TileOps<T>& ops)
    : width(of.width),
      tangent(of.tangent),
      plus(of.plus, ops),
      basis(of.basis, ops),
      firsts(of.blocks),
      stride(whole_tiles(of.blocks.size())),
      index(stride * of.width),
      bases(stride * of.width * of.width) {
  for (std::uint32_t k = 0; k < width; ++k)
    for (std::size_t b = 0; b < stride; ++b)
      index[k * stride + b] = firsts[std::min(b, firsts.size() - 1)] + k;
}

template <class T>
void CpuManifolds<T>::follow(const Model& model, const BlockLayout& layout, Bits bits) {
  kinds_.clear();
  on_.clear();
  if (model.manifolds == nullptr) return;
  on_.resize(model.scalars);
  for (const ManifoldBlocks& blocks : model.manifolds->all) {
    if (blocks.blocks.empty()) continue;
    kinds_.push_back(std::make_unique<Kind>(blocks, tile_ops<T>(bits)));
    for (const std::uint32_t first : blocks.blocks) {
      std::fill_n(on_.begin() + first, blocks.width, 1);
      kinds_.back()->packed.push_back(layout.block(layout.locate(first).block).packed);
    }
  }
}

template <class T>
void CpuManifolds<T>::hold_rest(std::span<std::uint8_t> held) const {
  for (const auto& kind : kinds_)
    for (const std::uint32_t first : kind->firsts)
      std::fill_n(held.begin() + first + kind->tangent, kind->width - kind->tangent, 1);
}

/// Results go to columns of the kind's stride.
template <class T>
void CpuManifolds<T>::run(Pool& pool, Workers<T>& workers, const Kind& kind,
                          const TileKernel<T>& kernel, const T* x, const T* delta, T* out) {
  Binding<T> binding;
  for (const LeafUse& leaf : kernel.program().gathers)
    binding.gathers.push_back(
        {leaf.op == ir::Op::Tangent ? delta : x, kind.index.data() + leaf.slot * kind.stride});
  for (std::uint32_t k = 0; k < kernel.program().outputs; ++k)
    binding.outputs.push_back(out + k * kind.stride);
  const std::size_t count = kind.firsts.size();
  pool.for_ranges(count, kTilesPerRange * kTile, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += kTile)
      workers.local().run(kernel, binding, first, std::min(kTile, end - first));
  });
}

template <class T>
void CpuManifolds<T>::find_bases(Pool& pool, Workers<T>& workers, const T* x) {
  for (const auto& kind : kinds_)
    run(pool, workers, *kind, kind->basis, x, nullptr, kind->bases.data());
}

template <class T>
void CpuManifolds<T>::contract(Pool& pool, T* v) const {
  for (const auto& kind : kinds_) {
    for_all(pool, kind->firsts.size(), [&](std::size_t b) {
      T* const block = v + kind->firsts[b];
      std::array<T, kWidestDenseBlock> sums{};
      for (std::uint32_t t = 0; t < kind->tangent; ++t)
        for (std::uint32_t k = 0; k < kind->width; ++k) sums[t] += kind->entry(b, k, t) * block[k];
      std::copy_n(sums.begin(), kind->width, block);
    });
  }
}

template <class T>
void CpuManifolds<T>::expand(Pool& pool, const T* v, T* out) const {
  for (const auto& kind : kinds_) {
    for_all(pool, kind->firsts.size(), [&](std::size_t b) {
      const T* const block = v + kind->firsts[b];
      for (std::uint32_t k = 0; k < kind->width; ++k) {
        T sum = 0;
        for (std::uint32_t t = 0; t < kind->tangent; ++t) sum += kind->entry(b, k, t) * block[t];
        out[kind->firsts[b] + k] = sum;
      }
    });
  }
}

namespace {

/// block = Pᵀ block P for block b of a kind, whose basis is P.
template <class T, class Kind>
void contract_block(const Kind& kind, std::size_t b, T* block) {
  const std::uint32_t w = kind.width;
  const auto at = [&](std::uint32_t i, std::uint32_t j) {
    return block[packed_index(w, std::min(i, j), std::max(i, j))];
  };
  std::array<T, kWidestDenseBlock * kWidestDenseBlock> product{};  // block P
  for (std::uint32_t i = 0; i < w; ++i)
    for (std::uint32_t t = 0; t < kind.tangent; ++t)
      for (std::uint32_t k = 0; k < w; ++k) product[i * w + t] += at(i, k) * kind.entry(b, k, t);
  for (std::uint32_t s = 0; s < w; ++s) {
    for (std::uint32_t t = s; t < w; ++t) {
      T sum = 0;
      for (std::uint32_t k = 0; t < kind.tangent && k < w; ++k)
        sum += kind.entry(b, k, s) * product[k * w + t];
      block[packed_index(w, s, t)] = sum;
    }
  }
}

}  // namespace

template <class T>
void CpuManifolds<T>::contract_blocks(Pool& pool, T* packed) const {
  for (const auto& kind : kinds_)
    for_all(pool, kind->firsts.size(),
            [&](std::size_t b) { contract_block(*kind, b, packed + kind->packed[b]); });
}

template <class T>
void CpuManifolds<T>::move(Pool& pool, Workers<T>& workers, const T* x, const T* delta,
                           T* out) const {
  for (const auto& kind : kinds_) {
    Column<T> moved(kind->stride * kind->width);
    run(pool, workers, *kind, kind->plus, x, delta, moved.data());
    for_all(pool, kind->firsts.size(), [&](std::size_t b) {
      for (std::uint32_t k = 0; k < kind->width; ++k)
        out[kind->firsts[b] + k] = moved[k * kind->stride + b];
    });
  }
}

template <class T>
std::uint64_t CpuManifolds<T>::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& kind : kinds_)
    sum += bytes_of(kind->index) + bytes_of(kind->bases) +
           kind->firsts.size() * (sizeof(std::uint32_t) + sizeof(std::uint64_t));
  return sum;
}

template class CpuManifolds<float>;
template class CpuManifolds<double>;

}  // namespace topograd::runtime::cpu
