// User-defined tasks that run on the CPU or a device, whichever is faster: topograd::hybrid.
#pragma once

#include "../ir/language.hpp"

#include "../runtime/hybrid/batch.hpp"
#include "../runtime/hybrid/executor.hpp"
#include "../solver/executor.hpp"

namespace topograd {

namespace hybrid = runtime::hybrid;

}  // namespace topograd
