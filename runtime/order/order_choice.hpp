// Whether locality orders are looked for.
#pragma once

namespace topograd::runtime {

/// The environment variable that says whether find_order() looks for one (kFoundOrder, also where
/// it is not set) or not (kKeptOrder), to compare the two; read at each call.
inline constexpr const char* kOrderVariable = "TOPOGRAD_ORDER";
inline constexpr const char* kFoundOrder = "found";
inline constexpr const char* kKeptOrder = "kept";

}  // namespace topograd::runtime
