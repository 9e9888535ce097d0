// Internal: runs that the executor does not record, because later runs will differ.
#pragma once

namespace topograd::ops {

/// While it lives, runs of this thread are not recorded: they may use fewer threads than usual.
class UnrecordedRuns {
 public:
  UnrecordedRuns() { ++living_; }
  ~UnrecordedRuns() { --living_; }
  UnrecordedRuns(const UnrecordedRuns&) = delete;
  UnrecordedRuns& operator=(const UnrecordedRuns&) = delete;

  static bool any() { return living_ > 0; }

 private:
  inline static thread_local int living_ = 0;
};

}  // namespace topograd::ops
