// The backends that run the kernels of an engine.
#pragma once

#include "../ir/enum_table.hpp"

namespace topograd::runtime {

enum class Backend { cpu, vulkan };
TG_ENUM_NAMES(Backend)

}  // namespace topograd::runtime
