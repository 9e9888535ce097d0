// Reductions of many pieces of one array at once.
#pragma once

#include "reduce.hpp"
#include "scan.hpp"

#include <cstdint>

namespace topograd::ops {

/// What segments are reduced by: a reduction, or a function of two numbers that is associative.
struct SegmentReduction {
  Reduction reduction = Reduction::sum;
  const Expression* fold = nullptr;  ///< instead of it; elements keep their order
  double identity = 0;               ///< of the function
};

/// output[s] = x[starts[s]] ... x[starts[s + 1] - 1] reduced, for s + 1 < starts.size.
///
/// An empty segment gives the identity: 0, 1, for min and max the type's largest and smallest
/// number or infinity, for argmin and argmax 2^32 - 1; their results are places in x. Sums keep a
/// fixed order. Without a check, starts beyond x end there, and those that fall are of empty
/// segments. On a device, segments of up to 64 elements take an invocation each, longer ones a
/// workgroup, and whole pieces of 16,384 elements inside of one are reduced before.
///
/// Throws Error{Shape} if sizes do not fit, Error{InvalidArgument} "segmented_reduce: start 2 is 9,
/// expected between 4 and 7" if `check` looks.
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
/// Places of the smallest or largest: argmin or argmax.
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
