// Kernels that a scheduler has seen: their times on each target, and where they ran last.
#pragma once

#include "choice.hpp"
#include "decision.hpp"
#include "history.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace topograd::runtime::hybrid {

struct KernelTimes {
  std::vector<History> targets;
  std::array<Side, kSizeClasses> sides{};  ///< last side of measured tasks
  /// Trials of a side that was not measured at this size: of the CPU, of devices.
  std::array<std::uint8_t, kSizeClasses> cpu_trials{}, device_trials{};
  std::uint64_t refused = 0;  ///< targets that cannot run it, one bit each
  std::uint64_t used = 0;     ///< order of the last use
  std::string operation;

  /// The history on this target, or nullptr.
  const History* on(std::size_t target) const {
    return target < targets.size() ? &targets[target] : nullptr;
  }
};

/// At most `most` kernels; the least recently used leave first. Not thread-safe.
class KernelTable {
 public:
  explicit KernelTable(std::uint64_t most) : most_(most) {}

  /// nullptr if it is not known.
  const KernelTimes* find(Hash128 hash) const;
  KernelTimes* find(Hash128 hash);
  /// Finds or adds it. References to other kernels may end.
  KernelTimes& make(Hash128 hash, std::string_view operation);
  /// Marks it as the last one used, if it is known.
  void use(Hash128 hash);
  /// Number of kernels that can be added before others leave.
  std::uint64_t room() const;
  const std::unordered_map<Hash128, KernelTimes>& all() const { return kernels_; }

  /// Returns the last side of tasks that ran as one, by kernels and size classes; all are known.
  Side& last_side(std::span<const TaskShape> tasks);
  /// Applies a change of the target to all kernels but those that have noticed it themselves.
  void shift(std::size_t target, const DriftWatch::Change& change);

 private:
  void forget_oldest();

  std::uint64_t most_;
  std::unordered_map<Hash128, KernelTimes> kernels_;
  std::unordered_map<Hash128, Side> together_;  // by the hash of several tasks
  std::uint64_t tick_ = 0;
};

}  // namespace topograd::runtime::hybrid
