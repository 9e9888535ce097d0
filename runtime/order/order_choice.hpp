// The switch for locality orders.
#pragma once

namespace topograd::runtime {

/// Environment variable that makes find_order() search (kFoundOrder, also if unset) or not
/// (kKeptOrder), to compare the two; read at each call.
inline constexpr const char* kOrderVariable = "TOPOGRAD_ORDER";
inline constexpr const char* kFoundOrder = "found";
inline constexpr const char* kKeptOrder = "kept";

}  // namespace topograd::runtime
