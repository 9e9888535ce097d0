// Tasks of your own on the CPU or a device, whichever is faster: topograd::hybrid.
#pragma once

#include <topograd/ir/language.hpp>

#include <topograd/runtime/hybrid/batch.hpp>
#include <topograd/runtime/hybrid/executor.hpp>
#include <topograd/runtime/hybrid/metrics.hpp>
#include <topograd/solver/device_engine.hpp>
#include <topograd/solver/routing.hpp>

namespace topograd {

namespace hybrid = runtime::hybrid;

}  // namespace topograd
