// Calls to the parts of all ranks that go on when a device fails.
#pragma once

#include "rank_part.hpp"
#include "step_history.hpp"

#include <memory>
#include <utility>

namespace topograd::distributed {

/// A rank whose device fails in a call moves to its CPU. Then all ranks make the calls of the
/// history again, and the call that failed.
class RankCalls {
 public:
  /// The first call, with no history; null until another part comes.
  void use(std::unique_ptr<RankPart> part) {
    part_ = std::move(part);
    history_ = {};
  }
  RankPart& part() const { return *part_; }

  /// Returns f(part). Collective.
  template <class F>
  auto operator()(const F& f) {
    for (;;) {
      try {
        return f(*part_);
      } catch (const LostDevices& lost) {
        recover(lost);
      }
    }
  }
  /// Calls f(part) by RankPart::on_engine(). Collective.
  template <class F>
  void on_engine(const F& f) {
    (*this)([&](RankPart& part) { part.on_engine([&] { f(part); }); });
  }
  /// Calls f(history) if a device may fail.
  template <class F>
  void note(const F& f) {
    if (part_->has_devices()) f(history_);
  }
  const StepHistory& history() const { return history_; }

 private:
  void recover(LostDevices lost);

  std::unique_ptr<RankPart> part_;
  StepHistory history_;
};

}  // namespace topograd::distributed
