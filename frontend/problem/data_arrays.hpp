// The numbers of a problem's data arrays, one array after the other.
#pragma once

#include "../../ir/batch/remote_numbers.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace topograd::detail {

/// What lies elsewhere is brought here when a number is asked for. Any thread may read; a writer is
/// alone.
class DataArrays {
 public:
  std::size_t size() const { return numbers_.size(); }
  std::size_t bytes() const { return numbers_.capacity() * sizeof(double); }
  /// All of them.
  const std::vector<double>& numbers() const {
    if (!all_here_.load(std::memory_order_acquire)) bring();
    return numbers_;
  }
  void append(std::span<const double> values);
  /// New numbers for the array whose first entry is `first`.
  void set(std::uint32_t first, std::span<const double> values);
  void set(std::uint32_t first, std::shared_ptr<const ir::RemoteNumbers> values);

 private:
  struct Remote {
    std::uint32_t first = 0;
    std::shared_ptr<const ir::RemoteNumbers> numbers;
  };
  void bring() const;
  void forget(std::uint32_t first);

  mutable std::vector<double> numbers_;
  mutable std::vector<Remote> away_;  // what is not in numbers_
  mutable std::atomic<bool> all_here_ = true;
  mutable std::mutex mutex_;  // of those who bring them
};

}  // namespace topograd::detail
