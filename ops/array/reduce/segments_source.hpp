// Internal: kernels of segmented reductions.
#pragma once

#include "monoid.hpp"

#include <cstdint>

namespace topograd::ops {

/// Parameters of segment kernels, except for the fold.
struct SegmentKernel {
  /// Pieces of this size, at multiples of it and within one segment, are reduced first, so that a
  /// workgroup processes at most two incomplete pieces of a segment.
  static constexpr std::uint64_t kPiece = 16384;
  /// Segments up to this length are reduced by one invocation each.
  static constexpr std::uint64_t kShort = 64;

  Type type, result;
  std::uint32_t local;
  bool subgroups;  ///< true if subgroups can shuffle
};

/// Reduces the pieces within one segment; results of other pieces are never read. Arguments: the
/// array, the starts, the members of states. Words: elements, segments; those of the monoid.
ComputeKernel piece_source(const FoldForm& form, Type type, std::uint32_t local);

/// Arguments: the same, and results. Words: elements, segments, segments per workgroup; those of
/// the monoid.
ComputeKernel segment_source(const FoldForm& form, const SegmentKernel& kernel);

}  // namespace topograd::ops
