// Blocks on manifolds on the CPU: bases of their tangents, and moves along them.
#pragma once

#include "../model/model.hpp"
#include "interpreter/interpreter.hpp"
#include "terms/term.hpp"
#include "terms/term_index.hpp"
#include "tiles/pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// Brings vectors of x to tangent coordinates and back: a block's tangent coordinates are in its
/// first coordinates, and the ones after them are 0. Blocks that are on no
/// manifold are left alone. Each block is computed by itself, so the bits do not depend on threads,
/// nor on the blocks beside it.
template <class T>
class CpuManifolds {
 public:
  void follow(const Model& model, const BlockLayout& layout, Bits bits);
  bool empty() const { return kinds_.empty(); }
  /// True if a scalar of x is one of a block on a manifold.
  bool on_manifold(std::uint64_t scalar) const { return !on_.empty() && on_[scalar] != 0; }

  /// Marks the scalars without a tangent coordinate by 1.
  void hold_rest(std::span<std::uint8_t> held) const;
  /// Sets the bases at x, which the functions below use.
  void find_bases(Pool& pool, Workers<T>& workers, const T* x);
  /// v = Pᵀv.
  void contract(Pool& pool, T* v) const;
  /// out = P v; v and out are two vectors.
  void expand(Pool& pool, const T* v, T* out) const;
  /// B = PᵀBP for packed diagonal blocks.
  void contract_blocks(Pool& pool, T* packed) const;
  /// out = x ⊞ δ.
  void move(Pool& pool, Workers<T>& workers, const T* x, const T* delta, T* out) const;

  /// Calls f(first scalar, width, tangent, entry) for the blocks that begin in [first, end),
  /// ascending for each manifold, with entry(k, t) of the basis.
  template <class F>
  void for_blocks(std::uint64_t first, std::uint64_t end, const F& f) const;

  std::uint64_t bytes() const;

 private:
  /// Blocks of one manifold.
  struct Kind {
    Kind(const ManifoldBlocks& of, const TileOps<T>& ops);

    std::uint32_t width, tangent;
    TileKernel<T> plus, basis;
    std::vector<std::uint32_t> firsts;  // by block
    std::vector<std::uint64_t> packed;  // offset in packed blocks, by block
    std::size_t stride;                 // of columns: whole tiles of blocks
    Column<std::uint32_t> index;        // by coordinate and block: its scalar
    Column<T> bases;                    // by entry of P, row by row, and block

    T entry(std::size_t b, std::uint32_t row, std::uint32_t column) const {
      return bases[(row * width + column) * stride + b];
    }
  };

  static void run(Pool& pool, Workers<T>& workers, const Kind& kind, const TileKernel<T>& kernel,
                  const T* x, const T* delta, T* out);

  std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<std::uint8_t> on_;  // by scalar; empty: none
};

template <class T>
template <class F>
void CpuManifolds<T>::for_blocks(std::uint64_t first, std::uint64_t end, const F& f) const {
  for (const auto& kind : kinds_) {
    auto at = std::ranges::lower_bound(kind->firsts, first);
    for (; at != kind->firsts.end() && *at < end; ++at) {
      const auto b = static_cast<std::size_t>(at - kind->firsts.begin());
      f(*at, kind->width, kind->tangent,
        [&](std::uint32_t row, std::uint32_t column) { return kind->entry(b, row, column); });
    }
  }
}

}  // namespace topograd::runtime::cpu
