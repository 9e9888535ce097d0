// Precisions of kernels and solves.
#pragma once

#include "../ir/enum_table.hpp"

#include <span>

namespace topograd::codegen {

/// Kernels are f32 or f64. `mixed` is for solves only: point, residuals, cost and gradient in f64,
/// the linear system in f32.
enum class Precision { f32, f64, mixed };
TG_ENUM_NAMES(Precision)
/// All but `mixed`, which is for solves.
inline constexpr auto kKernelPrecisions = std::span(rows_of(Precision{})).first<2>();

}  // namespace topograd::codegen
