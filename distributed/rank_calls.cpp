// The calls that bring another engine to the state of a lost one, and ranks that move.
#include "rank_calls.hpp"

#include "../ir/machine/state_record.hpp"

#include <functional>
#include <utility>

namespace topograd::distributed {

void StepHistory::set_point(std::span<const double> x) {
  point_.assign(x.begin(), x.end());
  moved_ = linear_ = false;
  begin_step();
}

void StepHistory::accept(std::vector<double> trial) {
  before_ = std::exchange(point_, std::move(trial));
  moved_ = true;
  linear_ = false;
  begin_step();
}

void StepHistory::linearize() {
  moved_ = false;
  linear_ = true;
  begin_step();
}

void StepHistory::begin_step() {
  request_.reset();
  delta_.clear();
  length_.reset();
}

void StepHistory::keep_scaling(runtime::DampedSteps& steps) {
  ir::StateRecord record;
  steps.transfer(record);
  scaling_ = record.bytes();
}

void StepHistory::replay_scaling(runtime::DampedSteps& steps) const {
  steps.begin_solve();
  if (scaling_.empty()) return;
  ir::StateRecord record(scaling_);
  steps.transfer(record);
}

// linearize() tells the norm of the step that led to the point, so it is made again, from the point
// before.
void StepHistory::replay_point(runtime::Engine& engine, const Call& call) const {
  runtime::DampedSteps& steps = *engine.abilities().steps;
  if (!moved_) return call([&] { engine.set_point(point_); });
  std::vector<double> delta = point_;
  for (std::size_t k = 0; k < delta.size(); ++k) delta[k] -= before_[k];
  call([&] { engine.set_point(before_); });
  call([&] { steps.linearize(); });
  call([&] { steps.try_step(delta); });
  call([&] { steps.accept(); });
}

void StepHistory::replay(runtime::Engine& engine, const Call& call) const {
  if (point_.empty()) return;
  runtime::DampedSteps& steps = *engine.abilities().steps;
  call([&] { replay_scaling(steps); });
  replay_point(engine, call);
  if (linear_) call([&] { steps.linearize(); });
  if (request_) {
    call([&] { steps.try_step(*request_); });
  } else if (!delta_.empty()) {
    call([&] { steps.try_step(delta_); });
  }
  if (length_) call([&] { engine.abilities().step_lengths->rescale_step(*length_); });
}

// Each round takes a device from a rank, so they end.
void RankCalls::recover(LostDevices lost) {
  for (;;) {
    part_->leave_devices(lost);
    try {
      return history_.replay(part_->engine(),
                             [&](const std::function<void()>& f) { part_->on_engine(f); });
    } catch (const LostDevices& more) {
      lost = more;
    }
  }
}

}  // namespace topograd::distributed
