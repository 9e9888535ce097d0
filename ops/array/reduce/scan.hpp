// Prefix sums and compaction.
#pragma once

#include "../gather.hpp"
#include "../map.hpp"
#include "reduce.hpp"

#include <cstdint>
#include <span>
#include <type_traits>

namespace topograd::ops {

/// output[i] = x[0] + ... + x[i], or up to x[i - 1] if `exclusive` (first: the identity).
///
///   reduction  sum, product, min or max; NaN and overflow as in reductions
///
/// The order of operations depends only on the device and the size. Throws Error{Shape} if sizes
/// differ, Error{InvalidArgument} for other reductions and if types differ.
ExecutionStats scan_into(Reduction reduction, const Slice& x, const Slice& output, bool exclusive,
                         const OpOptions& options);

template <class T>
Array<T> inclusive_scan(const Array<T>& x, Reduction reduction = Reduction::sum,
                        const OpOptions& options = {}) {
  Array<T> out(x.size());
  scan_into(reduction, x.untyped(), out.untyped(), false, options);
  return out;
}
template <class T>
Array<T> exclusive_scan(const Array<T>& x, Reduction reduction = Reduction::sum,
                        const OpOptions& options = {}) {
  Array<T> out(x.size());
  scan_into(reduction, x.untyped(), out.untyped(), true, options);
  return out;
}

// The reduction before the array, as in segmented_reduce() and map_reduce().
template <class T>
Array<T> inclusive_scan(Reduction reduction, const Array<T>& x, const OpOptions& options = {}) {
  return inclusive_scan(x, reduction, options);
}
template <class T>
Array<T> exclusive_scan(Reduction reduction, const Array<T>& x, const OpOptions& options = {}) {
  return exclusive_scan(x, reduction, options);
}

/// The same for an associative f(Value, Value), which need not commute; integers are computed in
/// f64.
///
///   identity  f(identity, x) = x
///
///   inclusive_scan([](Value a, Value b) { return a + b - a * b; }, 0.0, x)
ExecutionStats fold_scan_into(const Expression& fold, double identity, const Slice& x,
                              const Slice& output, bool exclusive, const OpOptions& options);
template <class F, class T>
Array<T> inclusive_scan(const F& f, double identity, const Array<T>& x,
                        const OpOptions& options = {}) {
  Array<T> out(x.size());
  fold_scan_into(Expression::of<2>("inclusive_scan", f), identity, x.untyped(), out.untyped(),
                 false, options);
  return out;
}
template <class F, class T>
Array<T> exclusive_scan(const F& f, double identity, const Array<T>& x,
                        const OpOptions& options = {}) {
  Array<T> out(x.size());
  fold_scan_into(Expression::of<2>("exclusive_scan", f), identity, x.untyped(), out.untyped(), true,
                 options);
  return out;
}

/// Queues an exclusive sum on a device, for operations that consist of several kernels.
void scan_on(OpBackend& backend, const Slice& x, const Slice& output);

/// The elements of x with a non-zero flag, in order. Waits for their number.
///
/// Throws Error{Shape} if sizes differ.
Slice compact_slice(const Slice& x, const Slice& flags, const OpOptions& options);
/// The elements for which keep(Value), a Bool or a number, is not 0, in order:
/// compact([](Value v) { return v > 0.0; }, x).
template <class F, class T>
Array<T> compact(const F& keep, const Array<T>& x, const OpOptions& options = {}) {
  const Array<std::uint32_t> flags = detail::map<std::uint32_t, 1>(
      "compact", options,
      [&](Value v) {
        const auto kept = keep(v);
        const Value one = topograd::literal(1), none = topograd::literal(0);
        if constexpr (std::is_same_v<decltype(kept), const Bool>) {
          return select(kept, one, none);
        } else {
          return select(kept != none, one, none);
        }
      },
      x);
  return Array<T>(compact_slice(x.untyped(), flags.untyped(), options));
}

}  // namespace topograd::ops
