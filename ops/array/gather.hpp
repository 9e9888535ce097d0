// Access to elements by index: gather, and scatter, which stores or adds.
#pragma once

#include "array.hpp"

#include <cstdint>

namespace topograd::ops {

/// Determines if indices are checked before they are used.
enum class IndexCheck : std::uint8_t {
  none,   ///< an index out of range reads 0 and writes nothing
  throws  ///< Error{InvalidArgument} names the first bad index; waits for the indices
};

/// output[i] = x[index[i]]. Throws Error{Shape}, and Error{InvalidArgument} if sizes or types do
/// not fit (indices are u32, results have x's type) or if results overlap x or the indices.
ExecutionStats gather_into(const Slice& x, const Slice& index, const Slice& output,
                           IndexCheck check, const OpOptions& options);
/// The same without a check on a device, for operations that consist of several kernels.
void gather_on(OpBackend& backend, const Slice& x, const Slice& index, const Slice& output);
template <class T>
Array<T> gather(const Array<T>& x, const Array<std::uint32_t>& index,
                IndexCheck check = IndexCheck::none, const OpOptions& options = {}) {
  Array<T> out(index.size());
  gather_into(x.untyped(), index.untyped(), out.untyped(), check, options);
  return out;
}

/// Stores the new value, or adds it to the existing one.
enum class Combine : std::uint8_t { store, add };

/// target[index[i]] = x[i], or += x[i].
///
/// store: if an index is repeated, any one of its values stays. add: devices add in no fixed order,
/// so floating-point sums may differ between runs by rounding; they use native atomics for the type
/// if available, otherwise compare-and-swap. The CPU adds in order. Throws as gather_into() does.
ExecutionStats scatter_into(Combine combine, const Slice& x, const Slice& index,
                            const Slice& target, IndexCheck check, const OpOptions& options);
template <class T>
void scatter(const Array<T>& x, const Array<std::uint32_t>& index, Array<T>& target,
             Combine combine = Combine::store, IndexCheck check = IndexCheck::none,
             const OpOptions& options = {}) {
  scatter_into(combine, x.untyped(), index.untyped(), target.untyped(), check, options);
}

}  // namespace topograd::ops
