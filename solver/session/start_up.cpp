// Tiered start-up: which engine serves next while the kernels of a device are compiled.
#include "start_up.hpp"

#include <vector>

namespace topograd {

using runtime::Need;

bool StartUp::on_device(std::span<const Need> needs, const Ready& ready) {
  bool all = true;
  for (const Need& need : needs) {
    if (ready(need)) {
      missing_.erase(need);
    } else {
      missing_.insert(need);
      all = false;
    }
  }
  return all;
}

bool StartUp::steps_on_device(std::span<const Need> needs, const Ready& ready) {
  std::vector<Need> all(needs.begin(), needs.end());
  for (const Need& need : missing_)
    if (need.of == Need::Of::evaluation) all.push_back(need);
  return on_device(all, ready);
}

}  // namespace topograd
