// Elements by index: gather, and scatter, which stores or adds.
#pragma once

#include "array.hpp"

#include <cstdint>

namespace topograd::ops {

/// Whether indices are looked at before anything is read or written through them.
enum class IndexCheck : std::uint8_t {
  none,   ///< an index out of range reads 0, and writes nothing
  throws  ///< Error{InvalidArgument} that names the first; waits for the indices
};

/// output[i] = x[index[i]]. Throws Error{Shape}, Error{InvalidArgument} for sizes and types that do
/// not fit (indices are u32, results of x's type), and for results that lie in x or its indices.
ExecutionStats gather_into(const Slice& x, const Slice& index, const Slice& output,
                           IndexCheck check, const OpOptions& options);
/// The same without a check on a device, for operations that are made of several kernels.
void gather_on(Backend& backend, const Slice& x, const Slice& index, const Slice& output);
template <class T>
Array<T> gather(const Array<T>& x, const Array<std::uint32_t>& index,
                IndexCheck check = IndexCheck::none, const OpOptions& options = {}) {
  Array<T> out(index.size());
  gather_into(x.untyped(), index.untyped(), out.untyped(), check, options);
  return out;
}

/// What scatter does with the value that is there.
enum class Combine : std::uint8_t { store, add };

/// target[index[i]] = x[i], or += x[i].
///
/// store: where an index comes twice, one of its values stays, any of them. add: in no fixed order
/// on a device, so that sums of floating types may differ between runs by rounding; by native
/// atomics where the device has them for the type, else by compare-and-swap. The CPU adds in order.
/// Throws as gather_into() does.
ExecutionStats scatter_into(Combine combine, const Slice& x, const Slice& index,
                            const Slice& target, IndexCheck check, const OpOptions& options);
template <class T>
void scatter(const Array<T>& x, const Array<std::uint32_t>& index, Array<T>& target,
             Combine combine = Combine::store, IndexCheck check = IndexCheck::none,
             const OpOptions& options = {}) {
  scatter_into(combine, x.untyped(), index.untyped(), target.untyped(), check, options);
}

}  // namespace topograd::ops
