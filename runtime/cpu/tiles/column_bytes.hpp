// Bytes of columns and lists, for reports of memory.
#pragma once

#include "column.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// MemoryUse::use of vectors by scalar.
inline constexpr const char* kVectorsOfUnknowns = "vectors of unknowns";
inline constexpr const char* kStoredResults = "stored residuals, Jacobians and terms";

template <class T>
std::uint64_t bytes_of(const Column<T>& column) {
  return column.size() * sizeof(T);
}

template <class T>
std::uint64_t bytes_of(const std::vector<T>& items) {
  return items.capacity() * sizeof(T);
}

template <class T>
std::uint64_t bytes_of(const std::vector<Column<T>>& columns) {
  std::uint64_t total = 0;
  for (const Column<T>& column : columns) total += bytes_of(column);
  return total;
}

}  // namespace topograd::runtime::cpu
