// Precisions of kernels and solves: types of numbers, float64 of devices, and whose bits agree.
#pragma once

#include <span>

#include "../ir/enum_table.hpp"

namespace topograd::codegen {

/// `native`: each machine computes as fast as it can, with the same bits in every run. `portable`:
/// elementary functions, contractions and the order of sums are the same on all machines.
enum class Bits { native, portable };
TG_ENUM_NAMES(Bits)

/// Type of the numbers in a buffer.
enum class Element {
#define TG_ELEMENT(element, type) element,
#include "elements.def"
};
/// The names are GLSL's.
inline constexpr EnumRow<Element> kElements[] = {
#define TG_ELEMENT(element, type) {Element::element, type},
#include "elements.def"
};
TG_ENUM_TABLE(Element, kElements)

/// The f64 of a device: its own, or by 32-bit integers, with the same bits of basic operations.
/// `automatic` takes its own where there is one.
enum class Float64 { automatic, native, emulated };
TG_ENUM_NAMES(Float64)

/// Kernels are f32 or f64. `mixed` is for solves only: point, residuals, cost and gradient in f64,
/// the linear system in f32.
enum class Precision { f32, f64, mixed };
TG_ENUM_NAMES(Precision)
/// All but `mixed`, which is for solves.
inline constexpr auto kKernelPrecisions = std::span(rows_of(Precision{})).first<2>();

}  // namespace topograd::codegen
