// 64-bit mixing and 128-bit hashes.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace topograd::ir {

/// Bijective mixing of 64 bits. Source: Stafford, "Better Bit Mixing", variant 13 (2011).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A 128-bit hash; ordered, so that it can be a key.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;

  /// Folds `value` in; the result depends on the order of calls.
  constexpr void add(std::uint64_t value) {
    low = mix64(low ^ (value * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL));
    high = mix64((high ^ low) + (value ^ 0xd6e8feb86659fd93ULL) * 0xff51afd7ed558ccdULL);
  }
};

/// 32 hexadecimal digits.
std::string to_string(const Hash128& hash);
/// Folds the bytes of `text` in.
void add_bytes(Hash128& hash, const void* bytes, std::size_t size);

}  // namespace topograd::ir

template <>
struct std::hash<topograd::ir::Hash128> {
  std::size_t operator()(const topograd::ir::Hash128& h) const noexcept { return h.low; }
};
