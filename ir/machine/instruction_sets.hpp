// Vector instructions of this processor that the library has kernels for.
#pragma once

namespace topograd::platform {

/// AVX2 and FMA, unless TOPOGRAD_INSTRUCTIONS is "baseline".
bool has_avx2();
/// AVX-512 (F, VL, DQ), unless TOPOGRAD_INSTRUCTIONS is "baseline" or "avx2".
///
/// Both throw Error{InvalidArgument} for another value than these two and "avx512".
bool has_avx512();

}  // namespace topograd::platform
