// Tiered start-up: which engine serves next while the kernels of a device are compiled.
#pragma once

#include "../../runtime/engine/engine.hpp"

#include <functional>
#include <set>
#include <span>

namespace topograd {

/// The device serves an evaluation or a step once all kernels that it needs are ready, and the
/// interpreter serves until then. No engine is asked: `ready` says which kernels are there, and
/// begins to make those that are not.
class StartUp {
 public:
  using Ready = std::function<bool(const runtime::Need&)>;

  /// True if the device serves what needs these kernels. All of them are asked for, so that all are
  /// begun; what is missing is remembered until it is ready.
  bool on_device(std::span<const runtime::Need> needs, const Ready& ready);
  /// The same for a linearisation. Evaluations that were asked for before have to be ready, too:
  /// more of them may follow at the point.
  bool steps_on_device(std::span<const runtime::Need> needs, const Ready& ready);
  /// True if something that was asked for is not ready yet.
  bool waits() const { return !missing_.empty(); }

 private:
  std::set<runtime::Need> missing_;
};

}  // namespace topograd
