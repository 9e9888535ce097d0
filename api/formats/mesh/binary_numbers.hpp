// Numbers of binary files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace topograd {

/// One to eight bytes as an unsigned number.
inline std::uint64_t unsigned_number(std::string_view bytes, std::endian order) {
  std::uint64_t value = 0;
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const std::size_t at = order == std::endian::big ? k : bytes.size() - 1 - k;
    value = value << 8 | static_cast<unsigned char>(bytes[at]);
  }
  return value;
}

/// One to eight bytes as a number in two's complement.
inline std::int64_t signed_number(std::string_view bytes, std::endian order) {
  const auto unused = static_cast<int>(64 - 8 * bytes.size());
  return static_cast<std::int64_t>(unsigned_number(bytes, order) << unused) >> unused;
}

/// Four or eight bytes as a number of IEEE 754.
inline double float_number(std::string_view bytes, std::endian order) {
  const std::uint64_t bits = unsigned_number(bytes, order);
  if (bytes.size() == sizeof(double)) return std::bit_cast<double>(bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

}  // namespace topograd
