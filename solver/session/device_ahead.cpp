// Opening of a device beside other work.
#include "device_ahead.hpp"

#include "../../ir/error.hpp"
#include "device_engine.hpp"

namespace topograd {

DeviceAhead::DeviceAhead(const SolverOptions& options) {
  if (options.backend != Backend::vulkan) return;
  thread_ = std::jthread([options] {
    try {
      open_device(options);
    } catch (const Error&) {
      // Ignored: the solve opens the device again and reports it.
    }
  });
}

}  // namespace topograd
