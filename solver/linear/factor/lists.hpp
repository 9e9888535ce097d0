// Lists of various lengths in one array.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace topograd {

/// Lists of various lengths, one after the other.
template <class T>
struct Lists {
  std::vector<std::size_t> starts{0};
  std::vector<T> items;

  void close() { starts.push_back(items.size()); }
  std::size_t size(std::size_t k) const { return starts[k + 1] - starts[k]; }
  const T* begin(std::size_t k) const { return items.data() + starts[k]; }
  std::span<const T> operator[](std::size_t k) const { return {begin(k), size(k)}; }
};

}  // namespace topograd
