// Sections of a list that run only where a number on the device says so.
#pragma once

#include "vector_ops.hpp"

#include <functional>

namespace topograd::runtime::vulkan {

/// One section of one list. Its dispatches are indirect; where it stays closed they have no
/// workgroups, and take a device some microseconds each.
class ConditionalSection {
 public:
  using Section = std::function<void(CommandList&)>;

  /// Records the kernel that opens it or not, after a barrier: one that writes `opened`, with what
  /// `section` dispatches as `workgroups`. `section` has nothing but dispatches and barriers.
  template <class Kernel>
  void record_opening(Context& context, VectorOps& vectors, CommandList& list, Kernel kernel,
                      const Section& section) {
    kernel.push.count = count_workgroups(context, list, section);
    kernel.buffers = {.workgroups = all_, .opened = open_};
    list.barrier();
    vectors.record(list, kernel);
  }
  /// Records the section, the same once more.
  void record_section(CommandList& list, const Section& section);

 private:
  /// Makes the buffers; returns their words.
  std::uint32_t count_workgroups(Context& context, CommandList& list, const Section& section);

  Buffer all_, open_;  // u32, three for each dispatch: all of its workgroups; those, or none
};

}  // namespace topograd::runtime::vulkan
