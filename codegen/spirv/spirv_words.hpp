// Iteration over the instructions of a SPIR-V module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

}  // namespace topograd::codegen
