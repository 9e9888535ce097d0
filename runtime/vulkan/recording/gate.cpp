// Sections of a list that run only where a number on the device says so.
#include "gate.hpp"

#include <vector>

namespace topograd::runtime::vulkan {

std::uint32_t Gate::count_workgroups(Context& context, CommandList& list, const Section& section) {
  std::vector<std::uint32_t> words;
  list.open_gate(nullptr);
  section(list);
  for (const Groups& groups : list.close_gate())
    words.insert(words.end(), {groups.x, groups.y, groups.z});
  all_ = make_buffer(context, words, "gate_workgroups");
  open_ = context.device->buffer(all_.size(), MemoryKind::Device, "open_gate");
  return static_cast<std::uint32_t>(words.size());
}

void Gate::record_section(CommandList& list, const Section& section) {
  list.open_gate(&open_);
  section(list);
  (void)list.close_gate();
}

}  // namespace topograd::runtime::vulkan
