// Aligned arrays that are not initialised: columns of instances, tiles, vectors of unknowns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "tile_ops.hpp"

namespace topograd::runtime::cpu {

inline constexpr std::size_t kAlignment = 64;

/// The next multiple of the tile size.
constexpr std::size_t whole_tiles(std::size_t n) { return (n + kTile - 1) / kTile * kTile; }
constexpr std::size_t whole_lanes(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// `size()` numbers, aligned for tile functions. Elements are not initialised: the thread that
/// writes memory first also touches it first. Throws std::bad_alloc.
template <class T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  explicit Column(std::size_t size)
      : data_(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{kAlignment}))),
        size_(size) {}

  std::size_t size() const { return size_; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t k) { return data_.get()[k]; }
  const T& operator[](std::size_t k) const { return data_.get()[k]; }
  operator std::span<T>() { return {data(), size_}; }
  operator std::span<const T>() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

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
