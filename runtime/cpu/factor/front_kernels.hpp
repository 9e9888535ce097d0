// Dense kernels of a front: elimination of its pivots, its update matrix, and solves.
#pragma once

#include <cstdint>

#include "../tiles/pool.hpp"

namespace topograd::runtime::cpu {

/// Kernels work on tiles of eight rows, each stored with its columns one after the other (see
/// Front). Every entry is summed over ascending columns, whatever the range of tiles that a call is
/// given: the same bits for any division of the work.
///
/// The factor is A = L S Lᵀ, S being the signs of the pivots. A panel has L S, with the reciprocals
/// of its diagonal in place of the diagonal: negative ones for negative pivots, 0 for pivots that
/// vanish. For positive definite matrices that is L.
///
///   k      columns of the panel, that is pivots
///   signs  S by pivot of the panel, 1 or −1; null: all are 1
struct FrontKernels {
  /// A pivot that is refused; column == k if there is none.
  struct Pivot {
    std::uint32_t column;
    double value;
    std::uint32_t vanished, negative;  ///< pivots of this call
  };

  /// Factorises pivots [8 begin, 8 end) of a panel whose earlier columns are complete in these
  /// rows.
  ///
  ///   limits  by pivot of the panel: the size up to which it vanishes; null: none does
  ///   signs   written for these pivots; null: negative ones are refused
  Pivot (*factor)(double* panel, std::uint32_t k, std::uint32_t begin, std::uint32_t end,
                  const double* limits, double* signs);

  /// Computes columns [8 begin, 8 end) of L S in further tiles of rows, whose earlier columns are
  /// complete.
  ///
  ///   tiles  first of `count` tiles; below the pivots of that range
  void (*eliminate)(const double* panel, double* tiles, std::uint32_t count, std::uint32_t k,
                    std::uint32_t begin, std::uint32_t end, const double* signs);

  /// −L S Lᵀ of the rows below the pivots.
  ///
  ///   below   their tiles in the panel
  ///   update  triangle of tiles, overwritten in rows [begin, end) and columns [left, right), both
  ///           in tiles, up to the diagonal
  void (*update)(const double* below, double* update, std::uint32_t k, std::uint32_t begin,
                 std::uint32_t end, std::uint32_t left, std::uint32_t right, const double* signs);

  /// Adds a child's update matrix to the panel of its parent.
  ///
  ///   parent_rows  rows in the parent of the child's `count` rows, ascending
  ///   k            pivots of the parent
  void (*add_to_panel)(const double* child, const std::uint32_t* parent_rows, std::uint32_t count,
                       double* panel, std::uint32_t k);
  /// Adds tiles [begin, end) of its rows to the update matrix of its parent.
  void (*add_to_update)(const double* child, const std::uint32_t* parent_rows, std::uint32_t count,
                        double* update, std::uint32_t k, std::uint32_t begin, std::uint32_t end);

  /// y := S L⁻¹ y in the pivots' rows, then y −= L S y in the rows below; `tiles` of them all.
  void (*forward)(const double* panel, std::uint32_t k, std::uint32_t tiles, double* y);
  /// The pivots' rows of y := L⁻ᵀ S y, with the rows below given. Padding rows are 0. Between both
  /// calls the pivots' rows are multiplied by their signs.
  void (*backward)(const double* panel, std::uint32_t k, std::uint32_t tiles, double* y);
};

/// Returns the kernels for the newest instruction set of this processor. Portable ones have the
/// same bits for every set: they join no multiplication and addition.
const FrontKernels& front_kernels(Bits bits = Bits::native);

/// Returns all that this processor can run, for tests; nullptr ends the list.
const FrontKernels* const* all_front_kernels(Bits bits = Bits::native);

const FrontKernels& front_kernels_baseline();
const FrontKernels& portable_front_kernels_baseline();
#if defined(__x86_64__)
const FrontKernels& front_kernels_avx2();
const FrontKernels& front_kernels_avx512();
const FrontKernels& portable_front_kernels_avx2();
const FrontKernels& portable_front_kernels_avx512();
#endif

}  // namespace topograd::runtime::cpu
