// What solves for steps have on the device.
#pragma once

#include "../../linear/coarse_control.hpp"
#include "../recording/recorded.hpp"
#include "device_schur.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// The two-level preconditioner.
struct CoarseState {
  CoarseControl control;
  std::uint64_t version = 0, centres = 0;        // of the plan that the buffers are for
  Buffer vectors, answers, offsets;              // by vector and entry
  Buffer from, scalars, homes, starts, follows;  // u32, see CoarsePlan
  Buffer sources;                                // u32, likewise
  Buffer weights;                                // spread, gather, and the probes
  std::array<Buffer, 2> matrices;                // take turns from panel to panel of pivots
  Buffer panel;                                  // its rows
  Buffer in, out;                                // coarse unknowns
};
struct CoarseLists {
  std::vector<Recorded> build;
  Recorded start, iterations;
};

/// Elimination of blocks that do not meet.
struct SchurState {
  std::unique_ptr<DeviceSchur> device;
  Recorded start, iterations, finish;
};

}  // namespace topograd::runtime::vulkan
