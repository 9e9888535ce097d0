// Counts of operations, entries and bytes.
#include "term_figures.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Operations that a library function counts for.
constexpr std::uint64_t kFunctionCost = 20;

}  // namespace

std::uint64_t pass_cost(const TermShape& shape, Pass pass) {
  const ir::Program program = shape_program(shape, pass, slots_of(shape, pass));
  std::uint64_t cost = 0;
  for (const ir::Node& node : program.nodes) {
    if (ir::is_leaf(node.op)) continue;
    cost += ir::info(node.op).function.empty() ? 1 : kFunctionCost;
  }
  return cost;
}

SumWork sum_work(const Context& context, DeviceTerm& term, Pass pass, bool stored_terms) {
  const std::uint32_t number = context.element_bytes();
  const TermShape& shape = term.shape();
  const codegen::ColumnLayout layout =
      context.code == Code::serve ? term.numbers().left_out_of(shape.layout) : shape.layout;
  SumWork work;
  if (stored_terms) {
    const codegen::KernelRequest request = store_request(shape, pass);
    work.operations = term.instances() * ir::operation_count(request.program);
    work.bytes = term.instances() * stored_bytes(layout, number) + number * term.stored_size(pass);
  }
  for (const auto& set : term.gather_sets()) {
    for (std::size_t r = 0; r < set->roles(); ++r) {
      const std::uint32_t group = set->role_groups()[r];
      const std::uint64_t entries = set->role_entries()[r];
      work.entries += entries;
      if (stored_terms) {
        work.bytes += entries * (4 + number * shape.groups[group].slots.size());
        continue;
      }
      const bool gives = term.value_set(pass) == set.get() && set->lead() == r;
      const codegen::GatherRole role = gather_role(
          shape, has_values(pass) && !gives ? Pass::gradient : pass, group, set->owner_width());
      work.operations += entries * ir::operation_count(role.program);
      const EntryColumns columns =
          entry_columns(layout, shape.groups[group], shape.flexible.of_group(group));
      const codegen::ColumnLayout numbers{.data = columns.layout.data,
                                          .data_columns = columns.layout.data_columns};
      work.bytes += entries * (4 * columns.fixed + stored_bytes(numbers, number));
    }
  }
  return work;
}

}  // namespace topograd::runtime::vulkan
