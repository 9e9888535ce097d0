// Calls to the parts of all ranks, and their history for a rank that moves to its CPU.
#pragma once

#include "../runtime/engine/engine.hpp"
#include "rank_part.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::distributed {

/// Knows the point on the host, the scaling of columns, and what was called since the point.
class StepHistory {
 public:
  /// Another solve scales columns anew.
  void begin_solve() { scaling_.clear(); }
  void set_point(std::span<const double> x);
  /// The trial point has become the point.
  void accept(std::vector<double> trial);
  void linearize();
  /// Forgets the last step: another one comes.
  void begin_step();
  void step(const runtime::StepRequest& request) { request_ = request; }
  void step(std::span<const double> delta) { delta_.assign(delta.begin(), delta.end()); }
  void rescale(double length) { length_ = length; }

  /// Reads the scaling from the engine after the first step of a solve, or if it was restored.
  void keep_scaling(runtime::DampedSteps& steps);
  bool has_scaling() const { return !scaling_.empty(); }
  /// The numbers of the part at the point; empty before the first one.
  std::span<const double> point() const { return point_; }

  /// Makes the calls on an engine, each by call(f), which calls f() and may throw.
  using Call = std::function<void(const std::function<void()>& f)>;
  void replay(runtime::Engine& engine, const Call& call) const;

 private:
  void replay_scaling(runtime::DampedSteps& steps) const;
  void replay_point(runtime::Engine& engine, const Call& call) const;

  std::vector<std::byte> scaling_;  // a StateRecord of the steps
  std::vector<double> before_,
      point_;  // the point before: its step is known at the next linearize()
  bool moved_ = false, linear_ = false;
  // The last step from the point.
  std::optional<runtime::StepRequest> request_;
  std::vector<double> delta_;
  std::optional<double> length_;
};

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
