// Internal: kernels of segmented reductions.
#pragma once

#include "monoid.hpp"

#include <cstdint>

namespace topograd::ops {

/// What kernels of segments are told apart by, beside what they fold.
struct SegmentKernel {
  /// Elements that lie between multiples of this and in one segment are reduced first, so that no
  /// workgroup has more than two pieces of a segment to go through.
  static constexpr std::uint64_t kPiece = 16384;
  /// Segments up to this length take an invocation each.
  static constexpr std::uint64_t kShort = 64;

  Type type, result;
  std::uint32_t local;
  bool subgroups;  ///< that shuffle
};

/// Pieces that lie inside of one segment; what is stored of the others is never read. Arguments:
/// the array, the starts, the members of states. Words: elements, segments; those of the monoid.
KernelText piece_text(const FoldForm& form, Type type, std::uint32_t local);

/// Arguments: the same, and results. Words: elements, segments, segments of a workgroup; those of
/// the monoid.
KernelText segment_text(const FoldForm& form, const SegmentKernel& kernel);

}  // namespace topograd::ops
