// Replaces the numbers of data arrays.
#include "data_arrays.hpp"

#include <algorithm>
#include <utility>

namespace topograd::detail {

void DataArrays::append(std::span<const double> values) {
  numbers_.insert(numbers_.end(), values.begin(), values.end());
}

void DataArrays::forget(std::uint32_t first) {
  std::erase_if(away_, [first](const Resident& resident) { return resident.first == first; });
  all_here_ = away_.empty();
}

void DataArrays::set(std::uint32_t first, std::span<const double> values) {
  std::ranges::copy(values, numbers_.begin() + first);
  forget(first);
}

void DataArrays::set(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values) {
  forget(first);
  away_.push_back({first, std::move(values)});
  all_here_ = false;
}

void DataArrays::bring() const {
  const std::lock_guard lock(mutex_);
  while (!away_.empty()) {
    std::ranges::copy(away_.back().numbers->read(), numbers_.begin() + away_.back().first);
    away_.pop_back();
  }
  all_here_.store(true, std::memory_order_release);
}

}  // namespace topograd::detail
