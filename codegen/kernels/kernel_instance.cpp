// Kernels in which an invocation evaluates one instance: store, reduce, scatter by atomics.
#include "../../ir/error.hpp"

#include "../glsl/leaves.hpp"
#include "../glsl/reduction.hpp"
#include "../glsl/roll.hpp"
#include "kernel_forms.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace topograd::codegen {
namespace {

std::uint32_t number_bytes(Precision precision) { return precision == Precision::f32 ? 4 : 8; }

/// Loops of a long program, after its leaves were loaded. Parameters of a block are told apart by
/// their distance from the first one that is read.
std::optional<Roll> find_roll(const Prepared& prepared, const ColumnLayout& layout,
                              const LeafNames& names, bool apart = false) {
  std::map<std::uint32_t, std::int32_t> first;  // by index column
  for (const IndexSource& source : layout.parameters) {
    const auto [at, fresh] = first.try_emplace(source.column, source.offset);
    at->second = std::min(at->second, source.offset);
  }
  std::vector<std::uint32_t> coordinate;
  for (const IndexSource& source : layout.parameters)
    coordinate.push_back(static_cast<std::uint32_t>(source.offset - first.at(source.column)));
  return find_roll(prepared, coordinate, names, apart);
}
const Roll* pointer(const std::optional<Roll>& roll) { return roll ? &*roll : nullptr; }

/// Facts::statements: 0 without loops.
std::uint32_t statements_of(const std::optional<Roll>& roll) {
  return roll ? static_cast<std::uint32_t>(roll->statements) : 0;
}

// Declares add_to_results() by the strategy of the request.
void declare_atomic_add(const KernelRequest& request, Shader& shader) {
#define TG_ACCUMULATION(row, ...)                                                         \
  if constexpr (row_of(Accumulation::row).atomic) {                                       \
    if (request.accumulation == Accumulation::row) return declare_##row(request, shader); \
  }
#include "../accumulations.def"
  throw Error(ErrorCode::InvalidArgument,
              "generate: \"" + request.name +
                  "\": expected an atomic accumulation strategy for a scatter, got " +
                  std::string(name(request.accumulation)));
}

// `position` after out_first.
std::string result_position(const std::string& position) { return "out_first + " + position; }

// Writes many results in a loop over an array.
void write_results(const Written& written, std::size_t results, std::string_view out,
                   Precision precision, Lines& body) {
  const std::string count = unsigned_literal(results);
  body.line(scalar_type(precision), " all_results[", count, "];");
  for (std::size_t k = 0; k < results; ++k)
    body.line("all_results[", unsigned_literal(k), "] = ", written.outputs[k], ";");
  body.line("for (uint k = 0u; k < ", count, "; ++k) ", out, "[",
            result_position("k * out_stride + i"), "] = all_results[k];");
}

// Position of entry (k, column) of a packed upper triangle of n rows, less the column.
std::size_t packed_row(std::size_t k, std::size_t n) { return k * (2 * n - k - 1) / 2; }

// Writes outputs 0 .. column, the upper part of a column.
void write_column(const Written& written, std::string_view out, Precision precision, Lines& body) {
  const std::size_t n = written.outputs.size();
  if (n >= kLeastLooped) {
    const std::string count = unsigned_literal(n);
    body.line(scalar_type(precision), " all_results[", count, "];");
    for (std::size_t k = 0; k < n; ++k)
      body.line("all_results[", unsigned_literal(k), "] = ", written.outputs[k], ";");
    const std::string row = text("k * (", unsigned_literal(2 * n - 1), " - k) / 2u + column");
    body.line("for (uint k = 0u; k <= column; ++k) ", out, "[",
              result_position(text("(", row, ") * out_stride + i")), "] = all_results[k];");
    return;
  }
  for (std::size_t k = 0; k < n; ++k) {
    const std::string row = k == 0 ? std::string("column")
                                   : text("(", unsigned_literal(packed_row(k, n)), " + column)");
    const std::string condition =
        k == 0 ? std::string() : text("if (column >= ", unsigned_literal(k), ") ");
    body.line(condition, out, "[", result_position(row + " * out_stride + i"),
              "] = ", written.outputs[k], ";");
  }
}

// Opens the instances "i": one per invocation, or a loop in which values are summed.
void open_instances(const KernelRequest& request, const ValuesText& values, Shader& shader) {
  if (values) {
    values.begin(shader);
    values.open_loop("i", shader);
    return;
  }
  write_invocation_index("i", shader);
  if (request.predicated) write_predicate(shader, request.scalars);
  shader.body().line();
}

// Closes the instances after the form has written outputs 0 .. own - 1.
void close_instances(const ValuesText& values, const Written& written, std::size_t own,
                     Shader& shader) {
  if (!values) return;
  values.add(written, own, "i", shader);
  shader.body().close();
  values.end(shader);
}

std::size_t own_outputs(const KernelRequest& request, const ValuesText& values) {
  const std::size_t beside = values ? 1 + request.values.rows : 0;
  if (request.program.outputs.size() <= beside) {
    expect_count(request, "outputs and those of values", 1 + beside,
                 request.program.outputs.size());
  }
  return request.program.outputs.size() - beside;
}

// Hessians in a loop over their columns. Drivers keep the loop: unrolled, it is what it replaces.
BodyFacts write_columns(const KernelRequest& request, Shader& shader) {
  const std::size_t n = request.program.outputs.size();
  expect_count(request, "outputs", request.program.leaves.parameters, n);
  const Prepared prepared = prepare(request.program);
  LeafAccess access{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  access.loads_tangents = false;
  LeafNames names = leaf_names(request, request.program.leaves);
  open_instances(request, ValuesText(request), shader);
  write_loads(prepared, access, {}, request.precision, names, shader);
  Lines& body = shader.body();
  body.line();
  const std::optional<Roll> roll = find_roll(prepared, request.layout, names, true);
  const Expressions known =
      write_without_tangents(prepared, names, request.precision, "own_", shader, pointer(roll));
  body.line();
  const std::string_view type = scalar_type(request.precision);
  body.line("// A zero that compilers do not know: the tangent of all unknowns but one.");
  body.line(type, " off = ", type, "(uintBitsToFloat(zero_bits));");
  shader.need_extension("GL_EXT_control_flow_attributes");
  body.open("[[dont_unroll]] for (uint column = 0u; column < ", unsigned_literal(n), "; ++column)");
  const std::vector<bool> repeated = along_tangents(prepared);
  for (std::size_t id = 0; id < repeated.size(); ++id) {
    const ir::Node& node = prepared.program.nodes[id];
    if (!repeated[id] || node.op != ir::Op::Tangent) continue;
    body.line(type, " ", names.at(node.op, node.slot()),
              " = column == ", unsigned_literal(node.slot()), " ? ", literal(1, request.precision),
              " : off;");
  }
  const Written written =
      write_program(prepared, names, request.precision, shader, known, pointer(roll));
  const auto out = shader.use(BufferRole::results, element_of(request.precision), Access::write);
  write_column(written, out, request.precision, body);
  body.close();
  BodyFacts facts;
  std::array<std::uint32_t, ir::kOpCount> once{};
  prepared.count_operations(once);
  facts.statements = roll ? statements_of(roll) : std::accumulate(once.begin(), once.end(), 0u);
  prepared.count_operations(facts.operations, repeated, static_cast<std::uint32_t>(n));
  facts.bytes = column_bytes(prepared, access, {}, request.precision) +
                static_cast<std::uint32_t>(n * (n + 1) / 2) * number_bytes(request.precision);
  return facts;
}

}  // namespace

void write_invocation_index(std::string_view variable, Shader& shader) {
  shader.body().line("uint ", variable, " = gl_GlobalInvocationID.x + first;");
  shader.body().line("if (", variable, " >= count) return;");
}

BodyFacts write_store(const KernelRequest& request, Shader& shader) {
  if (request.columns_in_loop) return write_columns(request, shader);
  const Prepared prepared = prepare(request.program);
  const LeafAccess access{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  const ValuesText values(request);
  const std::size_t results = own_outputs(request, values);
  open_instances(request, values, shader);
  write_loads(prepared, access, {}, request.precision, names, shader);
  shader.body().line();
  const std::optional<Roll> roll = find_roll(prepared, request.layout, names);
  const Written written =
      write_program(prepared, names, request.precision, shader, {}, pointer(roll));
  shader.body().line();
  const auto out = shader.use(BufferRole::results, element_of(request.precision), Access::write);
  if (results >= kLeastLooped) {
    write_results(written, results, out, request.precision, shader.body());
  }
  for (std::size_t k = 0; k < results && results < kLeastLooped; ++k) {
    const std::string position = k == 0   ? std::string("i")
                                 : k == 1 ? std::string("out_stride + i")
                                          : unsigned_literal(k) + " * out_stride + i";
    shader.body().line(out, "[", result_position(position), "] = ", written.outputs[k], ";");
  }
  close_instances(values, written, results, shader);
  BodyFacts facts;
  facts.statements = statements_of(roll);
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, access, {}, request.precision) + values.bytes() +
                static_cast<std::uint32_t>(results) * number_bytes(request.precision);
  return facts;
}

BodyFacts write_reduce(const KernelRequest& request, Shader& shader) {
  expect_count(request, "outputs", 1, request.program.outputs.size());
  const Precision sums = request.wide_sums ? Precision::f64 : request.precision;
  const Summation summation(sums, request.workgroup_size, request.use_subgroups);
  const Prepared prepared = prepare(request.program, true);
  const LeafAccess access{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  summation.begin(shader, "sum");
  shader.body().line("uint grid = gl_NumWorkGroups.x * ", unsigned_literal(request.workgroup_size),
                     ";");
  shader.body().open("for (uint i = gl_GlobalInvocationID.x + first; i < count; i += grid)");
  write_loads(prepared, access, {}, request.precision, names, shader);
  shader.body().line();
  const std::optional<Roll> roll = find_roll(prepared, request.layout, names);
  const Written written =
      write_program(prepared, names, request.precision, shader, {}, pointer(roll));
  if (!written.failed.empty()) {
    const auto failures = shader.use(BufferRole::failures, Element::u32, Access::read_write);
    shader.body().line("if (", written.failed, ") atomicAdd(", failures, "[0], 1u);");
  }
  summation.add(shader, "sum", written.outputs[0], request.precision);
  shader.body().close();
  shader.body().line();
  const auto out = shader.use(BufferRole::results, element_of(sums), Access::write);
  shader.body().line(scalar_type(sums), " total = ", summation.total(shader, "sum"), ";");
  shader.body().line("if (gl_LocalInvocationIndex == 0u) ", out,
                     "[out_first + gl_WorkGroupID.x] = total;");
  BodyFacts facts;
  facts.statements = statements_of(roll);
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, access, {}, request.precision);
  return facts;
}

BodyFacts write_scatter(const KernelRequest& request, Shader& shader) {
  const ValuesText values(request);
  const std::size_t results = own_outputs(request, values);
  expect_count(request, "targets", results, request.targets.size());
  const Prepared prepared = prepare(request.program);
  const LeafAccess access{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  open_instances(request, values, shader);
  const std::vector<std::string> positions =
      write_loads(prepared, access, request.targets, request.precision, names, shader);
  shader.body().line();
  const std::optional<Roll> roll = find_roll(prepared, request.layout, names);
  const Written written =
      write_program(prepared, names, request.precision, shader, {}, pointer(roll));
  shader.body().line();
  declare_atomic_add(request, shader);
  for (std::size_t k = 0; k < results; ++k) {
    shader.body().line("add_to_results(", result_position(positions[k]), ", ", written.outputs[k],
                       ");");
  }
  close_instances(values, written, results, shader);
  BodyFacts facts;
  facts.statements = statements_of(roll);
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, access, request.targets, request.precision) +
                values.bytes() +
                static_cast<std::uint32_t>(results) * number_bytes(request.precision);
  return facts;
}

namespace {

// Reads the sum's bits once; after that the swap returns the current value. Bits are compared, so
// that a NaN, which is unequal to itself, ends the loop too.
constexpr std::string_view kCompareAndSwap32 = R"(
// Adds to a float whose bits are seen as an integer.
void add_to_results(uint position, float value) {
  uint expected = results[position];
  for (;;) {
    precise float sum = uintBitsToFloat(expected) + value;
    uint seen = atomicCompSwap(results[position], expected, floatBitsToUint(sum));
    if (seen == expected) return;
    expected = seen;
  }
}
)";

constexpr std::string_view kCompareAndSwap64 = R"(
// Adds to a double whose bits are seen as an integer.
void add_to_results(uint position, double value) {
  uint64_t expected = results[position];
  for (;;) {
    precise double sum = uint64BitsToDouble(expected) + value;
    uint64_t seen = atomicCompSwap(results[position], expected, doubleBitsToUint64(sum));
    if (seen == expected) return;
    expected = seen;
  }
}
)";

constexpr std::string_view kNativeAdd = R"(
void add_to_results(uint position, {T} value) {
  atomicAdd(results[position], value);
}
)";

}  // namespace

void declare_atomic_cas(const KernelRequest& request, Shader& shader) {
  const bool narrow = request.precision == Precision::f32;
  shader.use(BufferRole::results, narrow ? Element::u32 : Element::u64, Access::read_write);
  if (!narrow) {
    shader.need_extension("GL_EXT_shader_explicit_arithmetic_types_int64");
    shader.need_extension("GL_EXT_shader_atomic_int64");
  }
  shader.declare("add", (narrow ? kCompareAndSwap32 : kCompareAndSwap64).substr(1));
}

void declare_atomic_float(const KernelRequest& request, Shader& shader) {
  shader.use(BufferRole::results, element_of(request.precision), Access::read_write);
  shader.need_extension("GL_EXT_shader_atomic_float");
  shader.declare("add", substitute(kNativeAdd.substr(1),
                                   {{"T", std::string(scalar_type(request.precision))}}));
}

}  // namespace topograd::codegen
