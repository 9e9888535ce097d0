// Histograms of arrays.
#pragma once

#include "../array.hpp"

#include <cstdint>

namespace topograd::ops {

/// Bins of equal width over [low, high].
struct Bins {
  std::uint32_t count = 0;   ///< >= 1
  double low = 0, high = 1;  ///< finite, low < high
};

/// output[k] = number of elements in bin k: low + k w <= x < low + (k + 1) w; the last bin includes
/// high. NaN and elements outside are not counted. The bin is (x - low) (count / (high - low)), in
/// f32 for f32 and in f64 for other types, so an element within a rounding error of an edge may be
/// counted on either side, the same on every device.
///
/// Throws Error{InvalidArgument} "histogram: expected at least one bin between finite limits, got 0
/// from 1 to 2" and for results that are not u32, Error{Shape} for results of another size.
ExecutionStats histogram_into(const Slice& x, const Bins& bins, const Slice& output,
                              const OpOptions& options);
template <class T>
Array<std::uint32_t> histogram(const Array<T>& x, const Bins& bins, const OpOptions& options = {}) {
  Array<std::uint32_t> out(bins.count);
  histogram_into(x.untyped(), bins, out.untyped(), options);
  return out;
}

}  // namespace topograd::ops
