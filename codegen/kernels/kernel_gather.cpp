// Kernels in which an invocation or a workgroup sums the terms of one block: gather, sum_terms.
#include "../../ir/error.hpp"
#include "../glsl/leaves.hpp"
#include "../vector/source.hpp"
#include "kernel_forms.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace topograd::codegen {
namespace {

// Position of the k-th scalar from `base` on: base, base + 1u, ...
std::string offset_from(std::string_view base, std::uint32_t k) {
  return k == 0 ? std::string(base) : text(base, " + ", unsigned_literal(k));
}

// Multiplication by one is left out.
std::string times(std::string_view variable, std::size_t factor) {
  return factor == 1 ? std::string(variable) : text(variable, " * ", unsigned_literal(factor));
}

// The block, or the position of the sums, of work item w.
std::string block_of_item(const KernelRequest& request, BufferRole role, Shader& shader) {
  if (request.dense_blocks) return "w";
  return text(shader.use(role, Element::u32), "[w]");
}

std::string own_value(std::uint32_t coordinate) { return text("own_", coordinate); }
std::string own_direction(std::uint32_t coordinate) { return text("own_d", coordinate); }

bool fused(const KernelRequest& request) { return request.fusion != Fusion::none; }

// True if the output is a zero of either sign: a sum starts at +0 and is never -0, so that adding a
// zero changes no bit.
bool adds_nothing(const ir::Program& program, std::size_t output) {
  const ir::Node& node = program.nodes[program.outputs[output]];
  return node.op == ir::Op::Literal && node.literal() == 0;
}

void check_block_slot(const KernelRequest& request, const GatherSlot& block_slot) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::InvalidArgument, "generate: \"" + request.name + "\": " + what);
  };
  for (const std::uint32_t target : block_slot.targets) {
    if (target >= request.out_width) {
      fail(text("expected targets below out_width ", request.out_width, ", got ", target));
    }
  }
  if (request.form == Form::sum_terms) return;
  const std::size_t beside = block_slot.gives_values ? 1 + request.values.rows : 0;
  expect_count(request, "targets of a block slot", block_slot.program.outputs.size(),
               block_slot.targets.size() + beside);
  expect_count(request, "coordinates of a block slot", block_slot.slots.size(),
               block_slot.coordinates.size());
  for (const std::uint32_t coordinate : block_slot.coordinates) {
    if (coordinate >= request.block_width) {
      fail(text("expected coordinates below block_width ", request.block_width, ", got ",
                coordinate));
    }
  }
}

// True if an index column may grow with the block's first index.
bool has_flexible_index(const KernelRequest& request) {
  const auto flexible = [](const IndexSource& source) {
    return source.kind == IndexSource::Kind::flexible;
  };
  return std::ranges::any_of(request.block_slots, [&](const GatherSlot& block_slot) {
    return std::ranges::any_of(block_slot.layout.parameters, flexible) ||
           std::ranges::any_of(block_slot.layout.uniforms, flexible);
  });
}

// Writes the loads of the block's own parameters before the loops.
void write_own(const KernelRequest& request, const std::vector<Prepared>& prepared,
               Shader& shader) {
  std::set<std::uint32_t> values, directions;
  for (std::size_t r = 0; r < request.block_slots.size(); ++r) {
    const GatherSlot& block_slot = request.block_slots[r];
    for (std::size_t id = 0; id < prepared[r].live.size(); ++id) {
      const ir::Node& node = prepared[r].program.nodes[id];
      if (!prepared[r].live[id]) continue;
      if (node.op != ir::Op::Parameter && node.op != ir::Op::Tangent) continue;
      const auto found = std::ranges::find(block_slot.slots, node.slot());
      if (found == block_slot.slots.end()) continue;
      const std::uint32_t coordinate =
          block_slot.coordinates[static_cast<std::size_t>(found - block_slot.slots.begin())];
      (node.op == ir::Op::Parameter ? values : directions).insert(coordinate);
    }
  }
  if (fused(request)) {
    for (std::uint32_t c = 0; c < request.block_width; ++c) directions.insert(c);
  }
  if (values.empty() && directions.empty() && !has_flexible_index(request)) return;
  const Element element = element_of(request.precision);
  const std::string_view type = scalar_type(request.precision);
  shader.body().line("uint own = x_first + ",
                     times(block_of_item(request, BufferRole::owners, shader), request.block_width),
                     ";");
  for (const std::uint32_t c : values) {
    shader.body().line(type, " ", own_value(c), " = ", shader.use(BufferRole::x, element), "[",
                       offset_from("own", c), "];");
  }
  for (const std::uint32_t c : directions) {
    if (fused(request)) {
      shader.body().line("precise ", type, " ", own_direction(c), " = ",
                         fused_direction(offset_from("own", c), request.precision, shader), ";");
      continue;
    }
    shader.body().line(type, " ", own_direction(c), " = ",
                       shader.use(BufferRole::direction, element), "[", offset_from("own", c),
                       "];");
  }
}

void write_sums(const KernelRequest& request, Shader& shader) {
  for (std::uint32_t k = 0; k < request.out_width; ++k) {
    shader.body().line("precise ", scalar_type(request.precision), " sum_", k, " = ",
                       literal(0, request.precision), ";");
  }
}

std::size_t count_hosts(const KernelRequest& request) {
  return static_cast<std::size_t>(
      std::ranges::count(request.block_slots, false, &GatherSlot::is_fused));
}

void open_entries(const KernelRequest& request, std::size_t block_slot, Shader& shader) {
  const bool is_fused = request.block_slots[block_slot].is_fused;
  const std::size_t hosts = count_hosts(request);
  const auto starts =
      shader.use(is_fused ? BufferRole::fused_starts : BufferRole::starts, Element::u32);
  const std::string base =
      is_fused ? times("fused_item", request.block_slots.size() - hosts) : times("w", hosts);
  const auto position = [&](std::size_t r) {
    return offset_from(base, static_cast<std::uint32_t>(is_fused ? r - hosts : r));
  };
  shader.body().line("uint end_", block_slot, " = ", starts, "[", position(block_slot + 1), "];");
  std::string begin = text(starts, "[", position(block_slot), "]"), step = "++e";
  if (request.workgroup_items) {
    begin += " + gl_LocalInvocationIndex";
    step = text("e += ", unsigned_literal(request.workgroup_size));
  }
  shader.body().open("for (uint e = ", begin, "; e < end_", block_slot, "; ", step, ")");
}

// Writes the use of a block's sums in conjugate gradients: a part of the product and of p·q.
void write_fused(const KernelRequest& request, const ProductSum& sum, Shader& shader) {
  const Element element = element_of(request.precision);
  Lines& body = shader.body();
  body.line();
  std::vector<ProductSum::Product> products;
  for (std::uint32_t c = 0; c < request.block_width; ++c) {
    if (request.fusion != Fusion::adds) {
      const auto damping = shader.use(BufferRole::damping, element);
      const auto next = shader.use(BufferRole::next_direction, element, Access::write);
      body.line("sum_", c, " += ", damping, "[", offset_from("own", c), "] * ", own_direction(c),
                ";");
      body.line(next, "[", offset_from("own", c), "] = ", own_direction(c), ";");
    }
    products.push_back({own_direction(c), text("sum_", c)});
  }
  sum.add(shader, "pq", products);
}

void close_fused(const KernelRequest& request, const ProductSum& sum, Shader& shader) {
  const auto curvature =
      shader.use(BufferRole::curvature, element_of(request.scalars), Access::write);
  shader.body().line(scalar_type(request.scalars), " total = ", sum.total(shader, "pq"), ";");
  shader.body().line("if (gl_LocalInvocationIndex == 0u) ", curvature,
                     "[curvature_first + gl_WorkGroupID.x] = total;");
}

// Totals over the workgroup of `sums` numbers per invocation: the first {parts} x {sums}
// invocations sum every {parts}th number, then the first {sums} of them sum these.
constexpr std::string_view kTotals = R"(
barrier();
if (self < {workers}) {
  uint base = self / {parts} * {size} + self % {parts};
  precise {T} part = item_sums[base];
  for (uint k = {parts}; k < {size}; k += {parts}) part += item_sums[base + k];
  item_sums[base] = part;
}
barrier();
if (self < {sums}) {
  precise {T} total = item_sums[self * {size}];
  for (uint k = 1u; k < {parts}; ++k) total += item_sums[self * {size} + k];
  if (overwrite == 0u) total = {out}[o + self] + total;
  {out}[o + self] = total;
}
)";

// Two steps over the tree's width instead of one per factor of two: barriers cost more than the few
// additions, above all on a device that runs invocations as coroutines.
void write_workgroup_results(const KernelRequest& request, Shader& shader) {
  const std::uint32_t size = request.workgroup_size, sums = request.out_width;
  const std::uint32_t parts = 1u << (std::bit_width(size) - 1) / 2;
  const std::uint32_t bytes = size * (request.precision == Precision::f32 ? 4 : 8);
  const std::uint32_t most = std::clamp(request.tree_bytes / bytes, 1u, size / parts);
  const std::uint32_t rounds = (sums + most - 1) / most, at_once = (sums + rounds - 1) / rounds;
  const std::string type(scalar_type(request.precision));
  shader.declare("item_sums", text("shared ", type, " item_sums[", at_once * size, "];"));
  Lines& body = shader.body();
  body.line("uint self = gl_LocalInvocationIndex;");
  for (std::uint32_t first = 0; first < sums; first += at_once) {
    const std::uint32_t count = std::min(at_once, sums - first);
    body.line();
    if (first > 0) {
      body.line("o += ", unsigned_literal(at_once), ";");
      body.line("barrier();");
    }
    for (std::uint32_t k = 0; k < count; ++k)
      body.line("item_sums[", offset_from("self", k * size), "] = sum_", first + k, ";");
    const auto out =
        shader.use(BufferRole::results, element_of(request.precision), Access::read_write);
    body.lines(substitute(kTotals.substr(1), {{"workers", unsigned_literal(count * parts)},
                                              {"parts", unsigned_literal(parts)},
                                              {"size", unsigned_literal(size)},
                                              {"sums", unsigned_literal(count)},
                                              {"out", std::string(out)},
                                              {"T", type}}));
  }
}

void write_results(const KernelRequest& request, Shader& shader) {
  const auto out =
      shader.use(BufferRole::results, element_of(request.precision), Access::read_write);
  Lines& body = shader.body();
  body.line();
  body.line("uint o = out_first + ",
            times(block_of_item(request, BufferRole::outputs, shader), request.out_width), ";");
  if (request.workgroup_items) return write_workgroup_results(request, shader);
  body.open("if (overwrite == 0u)");
  for (std::uint32_t k = 0; k < request.out_width; ++k) {
    body.line("sum_", k, " = ", out, "[", offset_from("o", k), "] + sum_", k, ";");
  }
  body.close();
  for (std::uint32_t k = 0; k < request.out_width; ++k) {
    body.line(out, "[", offset_from("o", k), "] = sum_", k, ";");
  }
}

// "// Role 1: own_0, own_1, own_2 are x_b0, x_b1, x_b2"
std::string describe(const GatherSlot& block_slot, std::size_t index, const LeafNames& names) {
  std::string coordinates, slots;
  for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
    coordinates += text(k > 0 ? ", " : "", "own_", block_slot.coordinates[k]);
    slots += text(k > 0 ? ", " : "", names.at(ir::Op::Parameter, block_slot.slots[k]));
  }
  return text("// Role ", index, ": ", coordinates, block_slot.slots.size() == 1 ? " is " : " are ",
              slots, ".");
}

void write_block_slot(const KernelRequest& request, std::size_t index, const Prepared& prepared,
                      Shader& shader, BodyFacts& facts) {
  const GatherSlot& block_slot = request.block_slots[index];
  LeafNames names = leaf_names(request, block_slot.program.leaves);
  LeafAccess access{.layout = block_slot.layout,
                    .row = "e",
                    .seed_row = "i",
                    .own = {},
                    .fused = fused(request),
                    .counter = "own"};
  if (block_slot.is_fused) {
    access.index_columns = BufferRole::fused_index_columns;
    access.data_columns = BufferRole::fused_data_columns;
    access.stride = "fused_stride";
  }
  for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
    access.own.push_back({block_slot.slots[k], own_value(block_slot.coordinates[k]),
                          own_direction(block_slot.coordinates[k])});
  }
  Lines& body = shader.body();
  body.line();
  body.line(describe(block_slot, index, names));
  for (const OwnSlot& own : access.own) {
    names.at(ir::Op::Parameter, own.slot) = own.value;
    names.at(ir::Op::Tangent, own.slot) = own.direction;
  }
  const Expressions invariant = write_invariant(
      prepared, block_slot.slots, names, request.precision, text("own_r", index, "_"), shader);
  open_entries(request, index, shader);
  const ValuesText values(request);
  const bool seeds = block_slot.program.leaves.seeds > 0;
  const bool instance = seeds || (block_slot.gives_values && request.values.rows > 0);
  if (instance) body.line("uint i = ", shader.use(BufferRole::entries, Element::u32), "[e];");
  write_loads(prepared, access, {}, request.precision, names, shader);
  body.line();
  const Written written = write_program(prepared, names, request.precision, shader, invariant);
  for (std::size_t k = 0; k < block_slot.targets.size(); ++k) {
    if (adds_nothing(prepared.program, k)) continue;
    body.line("sum_", block_slot.targets[k], " += ", written.outputs[k], ";");
  }
  if (block_slot.gives_values) {
    values.add(written, block_slot.targets.size(), "i", shader);
    facts.bytes += values.bytes();
  }
  body.close();
  prepared.count_operations(facts.operations);
  facts.bytes += column_bytes(prepared, access, {}, request.precision) + (instance ? 4u : 0u);
}

// Finds out whether the block has entries in the fused block slots of another batch, and their
// start.
void open_fused_terms(const KernelRequest& request, Shader& shader) {
  const auto blocks = shader.use(BufferRole::fused_owners, Element::u32);
  Lines& body = shader.body();
  body.line();
  body.line("uint fused_owner = ", block_of_item(request, BufferRole::owners, shader), ";");
  body.line("uint fused_bits = ", blocks, "[2u * (fused_owner >> 5u)];");
  body.line("uint fused_bit = 1u << (fused_owner & 31u);");
  body.open("if ((fused_bits & fused_bit) != 0u)");
  body.line("uint fused_before = ", blocks, "[2u * (fused_owner >> 5u) + 1u];");
  body.line("uint fused_item = fused_before + uint(bitCount(fused_bits & (fused_bit - 1u)));");
}

// A fused kernel runs few workgroups; each of them sums the partial sums that it needs itself.
void open_fused(const KernelRequest& request, ProductSum& sum, Shader& shader) {
  ConjugateSource(shader, request.scalars, request.workgroup_size, request.use_subgroups)
      .open_direction(request.fusion == Fusion::decides);
  sum.begin(shader, "pq", "rz");
  shader.body().line("uint grid = gl_NumWorkGroups.x * ", unsigned_literal(request.workgroup_size),
                     ";");
  shader.body().open("for (uint w = gl_GlobalInvocationID.x + first; w < count; w += grid)");
}

void write_work_item(const KernelRequest& request, const ValuesText& values, Shader& shader) {
  values.begin(shader);
  if (values && !request.workgroup_items) return values.open_loop("w", shader);
  if (request.workgroup_items) {
    shader.body().line("uint w = gl_WorkGroupID.x + first;");
    shader.body().line("if (w >= count) return;");
  } else {
    write_invocation_index("w", shader);
  }
  if (request.predicated) write_predicate(shader, request.scalars);
}

}  // namespace

BodyFacts write_gather(const KernelRequest& request, Shader& shader) {
  std::vector<Prepared> prepared;
  for (const GatherSlot& block_slot : request.block_slots) {
    check_block_slot(request, block_slot);
    prepared.push_back(prepare(block_slot.program));
  }
  ProductSum products(request.precision, request.scalars, request.workgroup_size,
                      request.use_subgroups);
  const ValuesText values(request);
  if (fused(request)) {
    open_fused(request, products, shader);
  } else {
    write_work_item(request, values, shader);
  }
  write_own(request, prepared, shader);
  write_sums(request, shader);
  BodyFacts facts;
  const std::size_t hosts = count_hosts(request);
  for (std::size_t r = 0; r < request.block_slots.size(); ++r) {
    if (r == hosts) open_fused_terms(request, shader);
    write_block_slot(request, r, prepared[r], shader, facts);
  }
  if (hosts < request.block_slots.size()) shader.body().close();
  if (fused(request)) write_fused(request, products, shader);
  write_results(request, shader);
  if (fused(request)) {
    shader.body().close();
    close_fused(request, products, shader);
  }
  if (values && !request.workgroup_items) shader.body().close();
  values.end(shader);
  return facts;
}

BodyFacts write_sum_terms(const KernelRequest& request, Shader& shader) {
  const Element element = element_of(request.precision);
  write_work_item(request, ValuesText(request), shader);
  write_sums(request, shader);
  BodyFacts facts;
  for (std::size_t r = 0; r < request.block_slots.size(); ++r) {
    const GatherSlot& block_slot = request.block_slots[r];
    check_block_slot(request, block_slot);
    expect_count(request, "slots of a block slot", block_slot.targets.size(),
                 block_slot.slots.size());
    shader.body().line();
    open_entries(request, r, shader);
    shader.body().line("uint i = ", shader.use(BufferRole::entries, Element::u32), "[e];");
    for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
      const std::string row = block_slot.slots[k] == 0 ? std::string()
                              : block_slot.slots[k] == 1
                                  ? std::string("out_stride + ")
                                  : unsigned_literal(block_slot.slots[k]) + " * out_stride + ";
      shader.body().line("sum_", block_slot.targets[k],
                         " += ", shader.use(BufferRole::terms, element), "[", row, "i];");
    }
    shader.body().close();
    const std::size_t bytes =
        4 + block_slot.slots.size() * (request.precision == Precision::f32 ? 4 : 8);
    facts.operations[static_cast<std::size_t>(ir::Op::Add)] +=
        static_cast<std::uint32_t>(block_slot.slots.size());
    facts.bytes += static_cast<std::uint32_t>(bytes);
  }
  write_results(request, shader);
  return facts;
}

}  // namespace topograd::codegen
