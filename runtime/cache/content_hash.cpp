// MurmurHash3_x64_128 with a 128-bit seed, reading little-endian words on every machine.
#include "content_hash.hpp"

#include <bit>

namespace topograd::runtime {
namespace {

constexpr std::uint64_t kFirst = 0x87c37b91114253d5u;
constexpr std::uint64_t kSecond = 0x4cf5ad432745937fu;

// Up to eight bytes, the first one lowest.
std::uint64_t word(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 8; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::uint64_t mix_first(std::uint64_t k) { return std::rotl(k * kFirst, 31) * kSecond; }
std::uint64_t mix_second(std::uint64_t k) { return std::rotl(k * kSecond, 33) * kFirst; }

std::uint64_t finish(std::uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdu;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53u;
  return k ^ (k >> 33);
}

}  // namespace

Hash128 hash_bytes(std::span<const std::byte> bytes, Hash128 seed) {
  std::uint64_t a = seed.high;
  std::uint64_t b = seed.low;
  const std::uint64_t length = bytes.size();
  for (; bytes.size() >= 16; bytes = bytes.subspan(16)) {
    a = (std::rotl(a ^ mix_first(word(bytes)), 27) + b) * 5 + 0x52dce729;
    b = (std::rotl(b ^ mix_second(word(bytes.subspan(8))), 31) + a) * 5 + 0x38495ab5;
  }
  if (bytes.size() > 8) b ^= mix_second(word(bytes.subspan(8)));
  a ^= mix_first(word(bytes));
  a ^= length;
  b ^= length;
  a += b;
  b += a;
  a = finish(a);
  b = finish(b);
  a += b;
  b += a;
  return {a, b};
}

std::string hex(Hash128 hash) { return ir::to_string(hash); }

}  // namespace topograd::runtime
