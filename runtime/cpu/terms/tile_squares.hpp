// Sums of squares within a tile.
#pragma once

#include "../tiles/pool.hpp"
#include "../tiles/tile_ops.hpp"

#include <cstddef>

namespace topograd::runtime::cpu {

/// Sum of squares over a tile in double, in an order that is independent of the rows' position.
class TileSquares {
 public:
  template <class T>
  void add(const T* row, double scale, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double r = row == nullptr ? scale : scale * double{row[i]};
      lanes_[i % kLanes] += r * r;
    }
  }
  double sum() const { return pairwise_sum(lanes_); }

 private:
  double lanes_[kLanes] = {};
};

}  // namespace topograd::runtime::cpu
