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

/// Trials of a target that has no measurements of a kernel.
struct Trials {
  std::array<std::uint8_t, kSizeClasses> at_size{};  ///< while it was not measured at this size
  std::uint8_t first = 0;                            ///< while it was not measured at all
};

struct KernelTimes {
  std::vector<History> targets;
  std::vector<Trials> trials;              ///< by target
  std::array<Side, kSizeClasses> sides{};  ///< last side of measured tasks
  std::uint64_t refused = 0;               ///< targets that cannot run it, one bit each
  std::uint64_t used = 0;                  ///< order of the last use
  std::string operation;

  /// The history on this target, or nullptr.
  const History* on(std::size_t target) const {
    return target < targets.size() ? &targets[target] : nullptr;
  }
  Trials& tried(std::size_t target) {
    if (trials.size() <= target) trials.resize(target + 1);
    return trials[target];
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
