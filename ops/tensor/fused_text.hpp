// Kernels around an expression over the elements of several tensors: maps and reductions.
#pragma once

#include "../../codegen/glsl/text.hpp"
#include "../../ir/program.hpp"
#include "../backend/kernel_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops::detail {

/// How an input or output of an expression is found at element i of a loop.
enum class Walk : std::uint8_t {
  linear,   ///< element i
  scalar,   ///< element 0
  strided,  ///< by the loop's axes
};

/// What an invocation of a map reads before it writes.
enum class Together : std::uint8_t {
  one,      ///< an element
  four,     ///< elements, 256 apart
  vectors,  ///< two vectors of four elements of f32, of what begins and ends at vectors
};

struct FusedInput {
  Walk walk = Walk::linear;
  bool half = false;  ///< two f16 numbers a 32-bit word
};

/// An expression as a kernel sees it: parameter slot k is input k, uniform slots are numbers.
///
/// Words of a kernel, in order: the numbers (their bits, low word first); its own; if something is
/// strided, the sizes of axes 1, 2, ... of the loop; for each input (and a strided output): of a
/// half one, 1 if it begins in the upper half of its word; of a strided one, its steps by axis.
struct FusedForm {
  ir::Program program;
  codegen::Precision precision = codegen::Precision::f32;
  std::vector<FusedInput> inputs;
  Walk output = Walk::linear;  ///< linear or strided; of maps
  std::uint32_t rank = 1;      ///< axes of the loop, >= 1
  /// Of maps of one output, where nothing is strided or half.
  Together together = Together::one;

  bool strided() const;
  /// Words that a kernel with `own` of its own needs.
  std::uint32_t words(std::uint32_t own) const;
  /// Arguments of a kernel: inputs and outputs.
  std::uint32_t arguments() const;
  /// Everything that the text depends on, as bytes.
  std::string key() const;
};

/// What combines the values of a reduction.
enum class Reduction : std::uint8_t { sum, max, min, argmax, argmin };

/// out_k[i] = output k of the expression at i, for i < count: its own word, which counts vectors
/// where there are such.
KernelText map_kernel(const FusedForm& form);

/// The expression's output, combined over `depth` elements for each of `outputs` results; element i
/// of the loop is number i % depth of result i / depth. Sums and extremes are made of pieces of
/// `segment` elements, which are stored behind each other: results[piece * outputs + result].
///
/// With `by_workgroup`, a workgroup makes a piece (x: results, in a loop; y: pieces), else an
/// invocation does. Own words: outputs, depth, segment. NaN wins over every number; equal numbers:
/// the first place.
KernelText reduce_kernel(const FusedForm& form, Reduction reduction, bool by_workgroup);

/// "bool is_nan(T x)" by bits, which no compiler removes.
std::string is_nan_glsl(codegen::Precision precision);

}  // namespace topograd::ops::detail
