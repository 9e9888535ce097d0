// The numbers of a problem's data arrays, one array after the other.
#pragma once

#include "../../ir/batch/resident_data.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace topograd::detail {

/// Numbers that are stored elsewhere are copied here when one is read. Any thread may read; a
/// writer must be alone.
class DataArrays {
 public:
  std::size_t size() const { return numbers_.size(); }
  std::size_t bytes() const { return numbers_.capacity() * sizeof(double); }
  /// The numbers of all arrays.
  const std::vector<double>& numbers() const {
    if (!all_here_.load(std::memory_order_acquire)) bring();
    return numbers_;
  }
  void append(std::span<const double> values);
  /// Replaces the numbers of the array whose first entry is `first`.
  void set(std::uint32_t first, std::span<const double> values);
  void set(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values);

 private:
  struct Resident {
    std::uint32_t first = 0;
    std::shared_ptr<const ir::ResidentData> numbers;
  };
  void bring() const;
  void forget(std::uint32_t first);

  mutable std::vector<double> numbers_;
  mutable std::vector<Resident> away_;  // arrays whose numbers are not in numbers_
  mutable std::atomic<bool> all_here_ = true;
  mutable std::mutex mutex_;  // for threads in bring()
};

}  // namespace topograd::detail
