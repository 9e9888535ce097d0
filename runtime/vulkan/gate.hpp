// Sections of a list that run only where a number on the device says so.
#pragma once

#include <topograd/runtime/vulkan/vector_ops.hpp>

#include <functional>

namespace topograd::runtime::vulkan {

/// One section of one list. Its dispatches are indirect; where it stays closed they have no
/// workgroups, and take a device some microseconds each.
class Gate {
 public:
  /// Records `section`, which has nothing but dispatches and barriers, to run where scalars[opens]
  /// is above 0 when the list comes to it. Begins with a barrier. `section` is called twice, and
  /// records the same both times.
  void record(Context& context, VectorOps& vectors, CommandList& list, codegen::Scalar opens,
              const std::function<void(CommandList&)>& section);

 private:
  Buffer all_, open_;  // u32, three for each dispatch: all of its workgroups; those, or none
};

}  // namespace topograd::runtime::vulkan
