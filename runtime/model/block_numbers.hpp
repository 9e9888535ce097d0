// Internal: consecutive numbers for the blocks of all parameter arrays.
#pragma once

#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Numbers of the blocks of some arrays, which must outlive it.
class BlockNumbers {
 public:
  explicit BlockNumbers(std::span<const ParameterArray> arrays) : arrays_(arrays) {
    for (const ParameterArray& a : arrays) {
      first_.push_back(count_);
      count_ += static_cast<std::uint32_t>(a.blocks);
    }
  }
  std::uint32_t count() const { return count_; }
  std::uint32_t first(std::size_t array) const { return first_[array]; }
  std::size_t array_of_scalar(std::uint32_t scalar) const {
    std::size_t array = arrays_.size() - 1;
    while (arrays_[array].offset > scalar) --array;
    return array;
  }
  /// The block of a scalar of that array.
  std::uint32_t of(std::size_t array, std::uint32_t scalar) const {
    const ParameterArray& a = arrays_[array];
    return first_[array] + (scalar - static_cast<std::uint32_t>(a.offset)) / a.width;
  }
  std::uint32_t at(std::uint32_t scalar) const { return of(array_of_scalar(scalar), scalar); }

 private:
  std::span<const ParameterArray> arrays_;
  std::vector<std::uint32_t> first_;
  std::uint32_t count_ = 0;
};

}  // namespace topograd::runtime
