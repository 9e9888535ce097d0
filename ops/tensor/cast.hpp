// Internal: tensors of other types.
#pragma once

#include "tensor.hpp"

namespace topograd::ops::detail {

/// The same numbers rounded to another floating-point type (to nearest, ties to even; f16 beyond
/// 65504 is infinite). Derivatives go through.
Tensor cast(const Tensor& from, Type type);

}  // namespace topograd::ops::detail
