// Reductions of many segments of an array at once.
#pragma once

#include "reduce.hpp"
#include "scan.hpp"

#include <cstdint>

namespace topograd::ops {

/// The operation that reduces segments: a reduction, or an associative function of two numbers.
struct SegmentReduction {
  Reduction reduction = Reduction::sum;
  const Expression* fold = nullptr;  ///< replaces `reduction`; elements keep their order
  double identity = 0;               ///< identity of `fold`
};

/// output[s] = x[starts[s]] ... x[starts[s + 1] - 1] reduced, for s + 1 < starts.size.
///
/// An empty segment gives the identity: 0 or 1; for min and max the type's largest and smallest
/// number or infinity; for argmin and argmax, whose results are indices in x, 2^32 - 1. Sums are
/// computed in a fixed order. Without a check, starts beyond x count as its end, and segments with
/// decreasing starts are empty. On a device, an invocation reduces a segment of up to 64 elements
/// and a workgroup a longer one; complete pieces of 16,384 elements within a segment are reduced
/// first.
///
/// Throws Error{Shape} if sizes do not fit, and if `check` is set Error{InvalidArgument}
/// "segmented_reduce: start 2 is 9, expected between 4 and 7".
ExecutionStats segmented_reduce_into(const SegmentReduction& what, const Slice& x,
                                     const Slice& starts, const Slice& output, IndexCheck check,
                                     const OpOptions& options);

template <class T>
Array<T> segmented_reduce(Reduction reduction, const Array<T>& x,
                          const Array<std::uint32_t>& starts, IndexCheck check = IndexCheck::none,
                          const OpOptions& options = {}) {
  Array<T> out(starts.size() - (starts.size() > 0));
  segmented_reduce_into({.reduction = reduction}, x.untyped(), starts.untyped(), out.untyped(),
                        check, options);
  return out;
}
/// Indices of the smallest or largest elements: argmin or argmax.
template <class T>
Array<std::uint32_t> segmented_place(Reduction reduction, const Array<T>& x,
                                     const Array<std::uint32_t>& starts,
                                     IndexCheck check = IndexCheck::none,
                                     const OpOptions& options = {}) {
  Array<std::uint32_t> out(starts.size() - (starts.size() > 0));
  segmented_reduce_into({.reduction = reduction}, x.untyped(), starts.untyped(), out.untyped(),
                        check, options);
  return out;
}
template <class F, class T>
Array<T> segmented_reduce(const F& f, double identity, const Array<T>& x,
                          const Array<std::uint32_t>& starts, IndexCheck check = IndexCheck::none,
                          const OpOptions& options = {}) {
  const Expression fold = Expression::of<2>("segmented_reduce", f);
  Array<T> out(starts.size() - (starts.size() > 0));
  segmented_reduce_into({.fold = &fold, .identity = identity}, x.untyped(), starts.untyped(),
                        out.untyped(), check, options);
  return out;
}

}  // namespace topograd::ops
