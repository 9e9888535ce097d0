// Sections of a list that run only where a number on the device says so.
#pragma once

#include "vector_ops.hpp"

#include <functional>

namespace topograd::runtime::vulkan {

/// One section of one list. Its dispatches are indirect; where it stays closed they have no
/// workgroups, and take a device some microseconds each.
class Gate {
 public:
  using Section = std::function<void(CommandList&)>;

  /// Records the kernel that opens it or not, after a barrier: one that writes `outputs`, with
  /// what `section` dispatches as `starts`. `section` has nothing but dispatches and barriers.
  void record_opening(Context& context, VectorOps& vectors, CommandList& list, VectorOps::Run run,
                      const Section& section);
  /// Records the section, the same once more.
  void record_section(const Context& context, CommandList& list, const Section& section);

 private:
  Buffer all_, open_;  // u32, three for each dispatch: all of its workgroups; those, or none
};

}  // namespace topograd::runtime::vulkan
