// Printing and byte-wise use of 128-bit hashes.
#include "hash.hpp"

#include <cstring>

namespace topograd::ir {

std::string to_string(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int k = 0; k < 16; ++k) {
    text[15 - k] = kDigits[(hash.high >> (4 * k)) & 15];
    text[31 - k] = kDigits[(hash.low >> (4 * k)) & 15];
  }
  return text;
}

void add_bytes(Hash128& hash, const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  hash.add(size);
  for (; size > 0;) {
    std::uint64_t word = 0;
    const std::size_t n = size < 8 ? size : 8;
    std::memcpy(&word, at, n);
    hash.add(word);
    at += n;
    size -= n;
  }
}

}  // namespace topograd::ir
