// Device list of builds without Vulkan: empty.
#include "device_list.hpp"

#include "../../ir/error.hpp"

namespace topograd::ops {

std::vector<ListedDevice> devices_of_system() { return {}; }

Device open_named(std::string_view which) {
  throw Error(ErrorCode::Unsupported,
              "device \"" + std::string(which) +
                  "\": this build has no Vulkan backend; configure with -DTOPOGRAD_VULKAN=ON");
}

}  // namespace topograd::ops
