// Internal: what is kept for a device on disk, and engines on a device that is open.
#pragma once

#include "../disk_cache.hpp"

#include <memory>

namespace topograd::runtime {
struct EngineOptions;
}

namespace topograd::runtime::vulkan {

struct Context;
class Device;
struct DeviceInfo;
struct DeviceOptions;

/// What the blobs of a device are kept by.
DiskCacheOptions disk_cache_options(const DeviceOptions& options, const DeviceInfo& info);

/// open_context() on a device that is open; what the options say of devices is not read.
Context make_context(const std::shared_ptr<Device>& opened, const EngineOptions& options);

}  // namespace topograd::runtime::vulkan
