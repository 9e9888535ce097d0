// Numbers on their way to the host.
#pragma once

#include "context.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace topograd::runtime::vulkan {

/// Host memory for results of recorded lists. If the host cannot read device memory
/// fast, lists copy them to host memory themselves, so that an evaluation is one submission; large
/// results go through the staging ring instead, in submissions of its own.
class Readback {
 public:
  Readback() = default;

  /// Records the copy behind a barrier after what writes `source`, if there is to be one. `own`:
  /// also where the host could read `source`, so that it may be written again before the results
  /// are read. A list that declares makes no memory for it.
  void record(Context& context, CommandList& list, const Buffer& source, bool own = false);
  /// Waits for `last`, the submission that wrote `source`, and reads numbers of `bytes` each.
  void read(Context& context, const Submission& last, const Buffer& source, bool wide,
            std::span<double> values) const;

 private:
  Buffer host_;
};

}  // namespace topograd::runtime::vulkan
