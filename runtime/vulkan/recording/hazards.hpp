// Barriers between passes that add to the same array.
#pragma once

#include "../../device/device.hpp"
#include "../../plan/plan.hpp"

#include <cstdint>
#include <set>

namespace topograd::runtime::vulkan {

/// Arrays written since the last barrier; a pass that adds to one of them again needs a barrier
/// first.
class Hazards {
 public:
  explicit Hazards(CommandList& list) : list_(list) {}
  void write(std::uint32_t array) {
    const bool again = array == kScalars ? !written_.empty()
                                         : written_.contains(array) || written_.contains(kScalars);
    if (again) {
      list_.barrier();
      written_.clear();
    }
    written_.insert(array);
  }

 private:
  CommandList& list_;
  std::set<std::uint32_t> written_;
};

}  // namespace topograd::runtime::vulkan
