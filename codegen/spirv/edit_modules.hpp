// Edits of SPIR-V modules: float-controls modes, KHR's matrices for NV's, f64 by 32-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::codegen {

constexpr std::size_t kSpirvHeaderWords = 5;
constexpr std::uint32_t kSpirvMagic = 0x07230203u;

/// One instruction: its opcode and all of its words, the first (length and opcode) included.
struct SpirvInstruction {
  std::uint32_t opcode = 0;
  std::span<const std::uint32_t> words;
};

/// True if `module` starts with the SPIR-V magic number in the host's byte order.
inline bool looks_like_spirv(std::span<const std::uint32_t> module) {
  return module.size() >= kSpirvHeaderWords && module[0] == kSpirvMagic;
}

/// The characters of a literal string that starts at `words`, up to its NUL or the last word.
inline std::string literal_string(std::span<const std::uint32_t> words) {
  std::string text;
  for (std::uint32_t word : words) {
    for (int byte = 0; byte < 4; ++byte, word >>= 8) {
      if ((word & 0xffu) == 0) return text;
      text.push_back(static_cast<char>(word & 0xffu));
    }
  }
  return text;
}

/// Calls visit(SpirvInstruction, word_index) in order; stops before a truncated instruction.
///
/// Returns the word index after the last whole instruction: module.size() for a whole module.
template <class Visit>
std::size_t for_each_instruction(std::span<const std::uint32_t> module, Visit&& visit) {
  std::size_t at = kSpirvHeaderWords;
  while (at < module.size()) {
    const std::size_t length = module[at] >> 16;
    if (length == 0 || at + length > module.size()) break;
    visit(SpirvInstruction{module[at] & 0xffffu, module.subspan(at, length)}, at);
    at += length;
  }
  return at;
}

/// Float controls for one width of floating-point numbers.
///
/// Ask only for what the device lists in VkPhysicalDeviceFloatControlsProperties, and heed its
/// denormBehaviorIndependence and roundingModeIndependence when the two widths differ.
struct FloatWidthControls {
  bool signed_zero_inf_nan_preserve = false;
  bool denorm_preserve = false;
  bool denorm_flush_to_zero = false;  ///< not together with denorm_preserve
  bool rounding_to_nearest_even = false;

  bool operator==(const FloatWidthControls&) const = default;
};

struct FloatControls {
  FloatWidthControls f32;
  FloatWidthControls f64;

  bool operator==(const FloatControls&) const = default;
};

/// Returns `module` with the modes of `controls` on each entry point.
///
/// Widths whose type the module lacks are left out, so one request fits every kernel. Modes and
/// capabilities that exist are not repeated: adding twice equals adding once. GLSL has no portable
/// spelling for these modes, and this way the source of a shader does not depend on the device.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or asks both to keep and to flush
/// denormals. Cost: one pass over the words. Source: SPIR-V 1.6, 2.4 (module layout) and 3.6
/// (execution modes); SPV_KHR_float_controls.
std::vector<std::uint32_t> add_float_controls(std::span<const std::uint32_t> module,
                                              const FloatControls& controls);

/// Returns the module with VK_KHR_cooperative_matrix's types and instructions, for compilers that
/// only know GL_NV_cooperative_matrix.
///
/// A KHR type includes the use of the matrix: f32 matrices are accumulators, those whose number of
/// rows is a specialization constant are right factors, others left ones.
///
/// Throws Error{InvalidArgument} if `module` is no whole SPIR-V module. Source:
/// SPV_KHR_cooperative_matrix, revision 7; SPV_NV_cooperative_matrix, revision 2.
std::vector<std::uint32_t> to_khr_matrices(std::span<const std::uint32_t> module);

/// Returns the module with pairs of 32-bit integers (uvec2, low word first) in place of 64-bit
/// floats, and calls of codegen/math/emulated in place of operations on them.
///
/// A number keeps its offset in a buffer, its bits are IEEE 754 binary64 everywhere, and every
/// basic operation is correctly rounded, fma included. Bindings keep their names, sizes and
/// strides. The result needs no capability that the module lacks; a module without 64-bit floats is
/// returned as it is. Vectors of doubles become arrays.
///
/// Throws Error{Unsupported} naming the instruction for what has no emulation: matrices, atomic
/// additions and subgroup arithmetic of doubles, and built-ins that the project's shaders do not
/// use. Throws Error{InvalidArgument} if `module` is not SPIR-V. Cost: a few passes over the words;
/// the first call also compiles the library, which takes some 50 ms.
std::vector<std::uint32_t> emulate_float64(std::span<const std::uint32_t> module);

/// Instructions of the module with each call replaced by what it calls, as compilers have it that
/// inline everything. Cost: one pass over the words.
std::uint64_t inlined_instructions(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
