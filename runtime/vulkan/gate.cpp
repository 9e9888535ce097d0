// Sections of a list that run only where a number on the device says so.
#include <topograd/runtime/vulkan/gate.hpp>

#include <vector>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::VectorOp;

void Gate::record(Context& context, VectorOps& vectors, CommandList& list, codegen::Scalar opens,
                  const std::function<void(CommandList&)>& section) {
  std::vector<std::uint32_t> words;
  if (!context.collecting) {
    list.open_gate(nullptr);
    section(list);
    for (const Groups& groups : list.close_gate())
      words.insert(words.end(), {groups.x, groups.y, groups.z});
    all_ = make_buffer(context, words, "gate_workgroups");
    open_ = context.device->buffer(all_.size(), MemoryKind::Device, "open_gate");
  }
  BindingTable table;
  table.set(BufferRole::starts, all_);
  table.set(BufferRole::outputs, open_);
  list.barrier();
  vectors.record(
      list,
      {.op = VectorOp::open_gate,
       .constants = {.count = static_cast<std::uint32_t>(words.size()), .a = codegen::slot(opens)}},
      table);
  list.barrier();
  if (context.collecting) return section(list);
  list.open_gate(&open_);
  section(list);
  (void)list.close_gate();
}

}  // namespace topograd::runtime::vulkan
