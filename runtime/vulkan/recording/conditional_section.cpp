// Sections of a list that run only where a number on the device says so.
#include "conditional_section.hpp"

#include <vector>

namespace topograd::runtime::vulkan {

std::uint32_t ConditionalSection::count_workgroups(Context& context, CommandList& list,
                                                   const Section& section) {
  std::vector<std::uint32_t> words;
  list.open_conditional(nullptr);
  section(list);
  const std::vector<Groups> dispatches = list.close_conditional();
  if (list.declared() != nullptr) return 0;
  for (const Groups& groups : dispatches) words.insert(words.end(), {groups.x, groups.y, groups.z});
  all_ = make_buffer(context, words, "conditional_workgroups");
  open_ = context.device->buffer(all_.size(), MemoryKind::Device, "open_conditional");
  return static_cast<std::uint32_t>(words.size());
}

void ConditionalSection::record_section(CommandList& list, const Section& section) {
  list.open_conditional(&open_);
  section(list);
  (void)list.close_conditional();
}

}  // namespace topograd::runtime::vulkan
