// Evaluations that were begun and may not have finished.
#pragma once

#include "asynchronous_state.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace topograd {

/// The evaluations of one Evaluator. It does not keep results that nobody holds.
class BegunEvaluations {
 public:
  void add(const std::shared_ptr<AsyncState>& state) {
    std::erase_if(begun_, [](const auto& held) { return held.expired(); });
    begun_.push_back(state);
  }
  /// Adds one that runs on the pool, after all that were added before.
  void add_on_pool(const std::shared_ptr<AsyncState>& state) { on_pool_ = state; }

  /// Finishes evaluations whose results nobody has asked for yet.
  void finish() {
    for (const auto& held : std::exchange(begun_, {})) {
      if (const auto state = held.lock()) state->finish();
    }
  }
  /// An engine that does not run asynchronously is used by one thread at a time.
  void wait_for_pool() const {
    if (const auto state = on_pool_.lock()) state->finish();
  }

 private:
  std::vector<std::weak_ptr<AsyncState>> begun_;
  std::weak_ptr<AsyncState> on_pool_;  // the last one that ran there
};

}  // namespace topograd
