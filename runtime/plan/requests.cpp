// Building kernel requests from shapes.
#include "requests.hpp"

#include "../../autodiff/derivatives.hpp"
#include "accumulation_rule.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace topograd::runtime {
namespace {

using codegen::Accumulation;
using codegen::Form;
using codegen::KernelRequest;

KernelRequest named(const TermShape& shape, Pass pass) {
  KernelRequest request;
  request.name = shape.name + "_" + std::string(name(pass));
  request.title = std::string(name(pass)) + " of topology " + to_string(shape.topology->hash);
  return request;
}

KernelRequest over_instances(const TermShape& shape, Pass pass) {
  KernelRequest request = named(shape, pass);
  request.program = shape_program(shape, pass, slots_of(shape, pass));
  request.layout = shape.layout;
  return request;
}

KernelRequest over_blocks(const TermShape& shape, Pass pass, std::uint32_t block_width) {
  KernelRequest request = named(shape, pass);
  request.block_width = block_width;
  request.out_width = sums_of_block(pass, block_width);
  return request;
}

bool accumulates(Pass pass) {
  switch (pass) {
    case Pass::residual:
    case Pass::cost:
    case Pass::jacobian:
    case Pass::stored_jacobian:
    case Pass::jvp:
    case Pass::guards:
    case Pass::hessian: return false;
    case Pass::hvp:
    case Pass::gradient:
    case Pass::vjp:
    case Pass::jtjp:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::blocks:
    case Pass::cost_gradient:
    case Pass::values: return true;
  }
  return false;
}

bool is_atomic(Accumulation strategy) { return codegen::row_of(strategy).atomic; }

/// The requests of a wide residual: only the diagonals of its blocks, which every strategy stores.
std::vector<KernelRequest> wide_requests(const TermShape& shape, Pass pass, Accumulation strategy) {
  const Pass own = pass == Pass::blocks ? Pass::diagonal : pass;
  if (own != Pass::diagonal && is_atomic(strategy)) return {scatter_request(shape, own, strategy)};
  return {store_request(shape, own),
          sum_terms_request(shape, has_values(own) ? Pass::gradient : own)};
}

/// Operations of a Hessian from which on a loop computes its columns: drivers' compilers take 0.1 s
/// for so many.
constexpr std::size_t kMostUnrolled = 1200;

/// The operations of ∇²E·p that depend on p are repeated for each column, the others are not.
/// Without a loop, columns share more.
std::size_t unrolled_operations(const ir::Program& product) {
  std::vector<bool> along(product.nodes.size());
  std::size_t once = 0, repeated = 0;
  for (ir::Id id = 0; id < product.nodes.size(); ++id) {
    const ir::Node& node = product.nodes[id];
    along[id] = node.op == ir::Op::Tangent ||
                std::ranges::any_of(node.operands(), [&](ir::Id arg) { return along[arg]; });
    if (!ir::is_leaf(node.op)) ++(along[id] ? repeated : once);
  }
  return once + repeated * product.outputs.size();
}

KernelRequest hessian_request(const TermShape& shape) {
  KernelRequest request = named(shape, Pass::hessian);
  request.layout = shape.layout;
  const std::vector<std::uint32_t> slots = slots_of(shape, Pass::hessian);
  request.program = shape_program(shape, Pass::hvp, slots);
  request.columns_in_loop = unrolled_operations(request.program) > kMostUnrolled;
  if (!request.columns_in_loop) request.program = shape_program(shape, Pass::hessian, slots);
  return request;
}

codegen::BesideValues values_of(const TermShape& shape, Pass pass) {
  return {.given = has_values(pass),
          .rows = rows_beside(pass, shape.topology->program, shape.energy)};
}

}  // namespace

ir::Program shape_program(const TermShape& shape, Pass pass, std::span<const std::uint32_t> slots) {
  const ir::Program& f = shape.topology->program;
  if (pass != Pass::jtjp || shape.fixed.empty())
    return pass_program(pass, f, slots, shape.energy, shape.loss);
  const std::vector<std::uint32_t> moving = slots_of(shape, pass);
  return shape.loss == nullptr ? autodiff::jtjp(f, slots, moving)
                               : autodiff::jtjp(autodiff::Robust{f, *shape.loss}, slots, moving);
}

std::vector<std::uint32_t> slots_of(const TermShape& shape, Pass pass) {
  std::vector<std::uint32_t> slots = autodiff::all_slots(shape.topology->program);
  const bool summed = (accumulates(pass) && pass != Pass::vjp) || pass == Pass::stored_jacobian;
  if (summed) {
    std::erase_if(
        slots, [&](std::uint32_t slot) { return std::ranges::binary_search(shape.fixed, slot); });
  }
  return slots;
}

std::string identifier(std::string_view label) {
  std::string text;
  for (char c : label) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) text = "residual_" + text;
  return text;
}

TermShape shape_of(const Term& term, std::span<const ParameterArray> arrays) {
  TermShape shape{.topology = term.topology,
                  .name = identifier(term.name),
                  .layout = {},
                  .groups = find_groups(*term.batch, arrays),
                  .flexible = {},
                  .energy = term.energy,
                  .loss = term.loss};
  shape.flexible = find_flexible(*term.batch, shape.groups);
  lay_out(shape);
  return shape;
}

void lay_out(TermShape& shape) {
  shape.layout = make_layout(shape.topology->program.leaves, shape.groups, shape.flexible,
                             shape.loss == nullptr ? 0 : shape.loss->leaves.uniforms);
}

KernelRequest store_request(const TermShape& shape, Pass pass) {
  if (pass == Pass::hessian) return hessian_request(shape);
  KernelRequest request = over_instances(shape, pass);
  request.form = Form::store;
  request.values = values_of(shape, pass);
  if (pass != Pass::stored_jtjp) return request;
  const auto entries = request.program.leaves.data;
  request.layout.data_columns = entries;
  request.layout.data.clear();
  for (std::uint32_t k = 0; k < entries; ++k) {
    request.layout.data.push_back({codegen::DataSource::Kind::column, k});
  }
  request.layout.uniforms.clear();
  return request;
}

KernelRequest cost_request(const TermShape& shape) {
  KernelRequest request = over_instances(shape, Pass::cost);
  request.form = Form::reduce;
  return request;
}

KernelRequest scatter_request(const TermShape& shape, Pass pass, Accumulation strategy) {
  KernelRequest request = over_instances(shape, pass);
  request.form = Form::scatter;
  request.accumulation = strategy;
  request.values = values_of(shape, pass);
  request.targets = slots_of(shape, pass);
  return request;
}

codegen::GatherSlot gather_slot(const TermShape& shape, Pass pass, std::uint32_t index,
                                std::uint32_t block_width) {
  const SlotGroup& group = shape.groups[index];
  codegen::GatherSlot block_slot;
  block_slot.slots = group.slots;
  block_slot.coordinates = group.coordinates;
  block_slot.program = shape_program(shape, pass, group.slots);
  block_slot.targets = targets(pass, group, block_width);
  block_slot.layout = entry_columns(shape.layout, group).layout;
  return block_slot;
}

KernelRequest gather_request(const TermShape& shape, Pass pass,
                             std::span<const std::uint32_t> block_slots, std::uint32_t block_width,
                             std::size_t lead) {
  KernelRequest request = over_blocks(shape, pass, block_width);
  request.form = Form::gather;
  request.values = values_of(shape, pass);
  request.accumulation = Accumulation::gather_recompute;
  const std::vector<EntryColumns> columns =
      entry_columns(shape.layout, shape.groups, block_slots, shape.flexible);
  for (std::size_t r = 0; r < block_slots.size(); ++r) {
    const bool gives = request.values.given && r == lead;
    const Pass own = gives || !request.values.given ? pass : Pass::gradient;
    request.block_slots.push_back(gather_slot(shape, own, block_slots[r], block_width));
    request.block_slots.back().layout = columns[r].layout;
    request.block_slots.back().gives_values = gives;
  }
  return request;
}

KernelRequest sum_terms_request(const TermShape& shape, Pass pass,
                                std::span<const std::uint32_t> block_slots,
                                std::uint32_t block_width) {
  KernelRequest request = over_blocks(shape, pass, block_width);
  request.name += "_sum";
  request.form = Form::sum_terms;
  request.accumulation = Accumulation::gather_store;
  const std::vector<std::uint32_t> stored = slots_of(shape, pass);
  for (std::uint32_t index : block_slots) {
    codegen::GatherSlot block_slot;
    for (const std::uint32_t slot : shape.groups[index].slots) {
      const auto at = std::ranges::lower_bound(stored, slot);
      block_slot.slots.push_back(static_cast<std::uint32_t>(at - stored.begin()));
    }
    block_slot.targets = targets(pass, shape.groups[index], block_width);
    request.block_slots.push_back(std::move(block_slot));
  }
  return request;
}

KernelRequest sum_terms_request(const TermShape& shape, Pass pass) {
  KernelRequest request = over_blocks(shape, pass, 1);
  request.name += "_sum";
  request.form = Form::sum_terms;
  request.accumulation = Accumulation::gather_store;
  codegen::GatherSlot block_slot;
  block_slot.slots = block_slot.targets = {0};
  request.block_slots = {block_slot};
  return request;
}

KernelRequest combine_request(std::uint32_t out_width) {
  KernelRequest request;
  request.name = "combine_partial_sums";
  request.title = "sums of partial sums";
  request.workgroup_items = true;
  request.form = Form::sum_terms;
  request.accumulation = Accumulation::gather_store;
  request.out_width = out_width;
  codegen::GatherSlot block_slot;
  block_slot.slots.resize(out_width);
  std::iota(block_slot.slots.begin(), block_slot.slots.end(), 0u);
  block_slot.targets = block_slot.slots;
  request.block_slots = {block_slot};
  return request;
}

std::vector<KernelRequest> requests(const Term& term, std::span<const ParameterArray> arrays,
                                    Pass pass, Accumulation strategy) {
  return requests(shape_of(term, arrays), arrays, pass, strategy);
}

std::vector<KernelRequest> requests(const TermShape& shape, std::span<const ParameterArray> arrays,
                                    Pass pass, Accumulation strategy) {
  if (pass == Pass::cost) return {cost_request(shape)};
  if (!accumulates(pass)) return {store_request(shape, pass)};
  if (is_wide(shape.groups)) return wide_requests(shape, pass, strategy);
  const bool blocks = pass == Pass::blocks || pass == Pass::diagonal;
  if (!blocks && is_atomic(strategy)) return {scatter_request(shape, pass, strategy)};
  const bool store =
      !blocks && short_accumulation(shape, pass, strategy) == Accumulation::gather_store;
  std::vector<KernelRequest> made;
  if (store) made.push_back(store_request(shape, pass));
  std::vector<bool> done(shape.groups.size(), false);
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    if (done[g]) continue;
    const std::uint32_t array = shape.groups[g].array;
    std::vector<std::uint32_t> block_slots;
    for (std::size_t k = g; k < shape.groups.size(); ++k) {
      if (shape.groups[k].array != array) continue;
      done[k] = true;
      block_slots.push_back(static_cast<std::uint32_t>(k));
    }
    const std::uint32_t width = array == kScalars ? 1 : arrays[array].width;
    // One kernel alone computes the additional values.
    const Pass own = has_values(pass) && !made.empty() ? Pass::gradient : pass;
    made.push_back(store ? sum_terms_request(shape, own, block_slots, width)
                         : gather_request(shape, own, block_slots, width));
  }
  return made;
}

}  // namespace topograd::runtime
