// Sets of numbers that are joined until they are asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace topograd {

/// Disjoint sets of 0 .. count − 1; each number is alone at first. Source: Tarjan, 1975.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }

  /// The least number of the set of k.
  std::uint32_t least(std::uint32_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }
  /// Joins two sets; false if they are one already.
  bool join(std::uint32_t a, std::uint32_t b) {
    a = least(a);
    b = least(b);
    parent_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<std::uint32_t> parent_;
};

}  // namespace topograd
