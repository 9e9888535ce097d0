// Moving ranks to their CPUs.
#include "rank_calls.hpp"

#include <functional>

namespace topograd::distributed {

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
