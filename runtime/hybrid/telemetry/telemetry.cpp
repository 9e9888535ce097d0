// Counters and histograms.
#include "telemetry.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::runtime::hybrid {

double Histogram::bound(int bucket) const { return std::ldexp(least_, bucket); }

void Histogram::add(double value) {
  ++count_;
  sum_ += value;
  static_assert(kBuckets == 32);
  if (value > least_ * 0x1p31) return;
  // The least k with value <= least 2^k.
  int k = 0;
  if (value > least_) {
    const double mantissa = std::frexp(value / least_, &k);
    if (mantissa == 0.5) --k;
  }
  ++counts_[static_cast<std::size_t>(k)];
}

std::uint64_t Histogram::up_to(int bucket) const {
  std::uint64_t sum = 0;
  for (int k = 0; k <= bucket; ++k) sum += counts_[static_cast<std::size_t>(k)];
  return sum;
}

OperationStatistics& Telemetry::of(std::string_view operation, std::string_view device) {
  const auto found = counts_.operations.find(NamesLess::Views(operation, device));
  if (found != counts_.operations.end()) return found->second;
  if (!names_.contains(operation)) {
    if (names_.size() >= kMostOperations) operation = kOther;
    names_.emplace(operation);
  }
  return counts_.operations[{std::string(operation), std::string(device)}];
}

void Telemetry::routed(const std::string& device, Reason reason) {
  const std::lock_guard lock(mutex_);
  // A few rows: to search them takes less than to make a key.
  const auto found = std::ranges::find_if(counts_.routing, [&](const auto& row) {
    return row.first.second == reason && row.first.first == device;
  });
  ++(found != counts_.routing.end() ? found->second : counts_.routing[{device, reason}]);
}

void Telemetry::ran(std::string_view operation, const std::string& device, const Outcome& outcome,
                    std::uint64_t items) {
  const std::lock_guard lock(mutex_);
  OperationStatistics& s = of(operation, device);
  if (!outcome.success) {
    ++s.failures;
    return;
  }
  ++s.tasks;
  s.items += items;
  s.bytes_up += outcome.bytes_up;
  s.bytes_down += outcome.bytes_down;
  s.cache_hits += outcome.cache_hits;
  s.batch.add(static_cast<double>(items));
  if (outcome.untimed) return;
  const double seconds = outcome.times.work() * 1e-6;
  s.seconds += seconds;
  s.timed_items += items;
  s.duration.add(seconds);
}

void Telemetry::read_back(std::string_view operation, const std::string& device,
                          std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  of(operation, device).bytes_down += bytes;
}

void Telemetry::fell_back(std::string_view operation, const std::string& device, ErrorCode error) {
  const std::lock_guard lock(mutex_);
  ++of(operation, device).fallbacks;
  ++counts_.fallbacks[{device, std::string(name(error))}];
}

void Telemetry::coalesced(std::uint64_t tasks) {
  const std::lock_guard lock(mutex_);
  counts_.coalesced_tasks += tasks;
  ++counts_.coalesced_dispatches;
}

void Telemetry::split() {
  const std::lock_guard lock(mutex_);
  ++counts_.split_tasks;
}

void Telemetry::state_loaded(bool accepted) {
  const std::lock_guard lock(mutex_);
  ++(accepted ? counts_.state_loads : counts_.state_rejected);
}

void Telemetry::state_written(bool success) {
  const std::lock_guard lock(mutex_);
  ++(success ? counts_.state_writes : counts_.state_write_failures);
}

Telemetry::Counts Telemetry::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

OperationStatistics Telemetry::statistics(std::string_view operation,
                                          std::string_view device) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.operations.find(NamesLess::Views(operation, device));
  return found == counts_.operations.end() ? OperationStatistics{} : found->second;
}

}  // namespace topograd::runtime::hybrid
