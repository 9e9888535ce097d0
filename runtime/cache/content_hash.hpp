// A 128-bit hash of bytes, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../../ir/hash.hpp"

namespace topograd::runtime {

using ir::Hash128;

/// Hashes a byte string, chained through `seed`. Not cryptographic. Cost: about 1 ns per 4 bytes.
/// Source: MurmurHash3_x64_128 (A. Appleby, public domain), with a 128-bit seed.
Hash128 hash_bytes(std::span<const std::byte> bytes, Hash128 seed = {});
inline Hash128 hash_text(std::string_view text, Hash128 seed = {}) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

/// 32 lower-case hexadecimal digits.
std::string hex(Hash128 hash);

}  // namespace topograd::runtime
