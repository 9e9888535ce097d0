// Kernels in which an invocation evaluates one instance: store, reduce, scatter.
#include "../../ir/error.hpp"
#include "../glsl/leaves.hpp"
#include "../glsl/reduction.hpp"
#include "../glsl/values.hpp"
#include "atomic_add.hpp"
#include "kernel_forms.hpp"

namespace topograd::codegen {
namespace {

std::uint32_t number_bytes(Precision precision) { return precision == Precision::f32 ? 4 : 8; }

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

}  // namespace

void write_invocation_index(std::string_view variable, Shader& shader) {
  shader.body().line("uint ", variable, " = gl_GlobalInvocationID.x + first;");
  shader.body().line("if (", variable, " >= count) return;");
}

BodyFacts write_store(const KernelRequest& request, Shader& shader) {
  const Prepared prepared = prepare(request.program);
  const LeafPlace place{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  const ValuesText values(request);
  const std::size_t results = own_outputs(request, values);
  open_instances(request, values, shader);
  write_loads(prepared, place, {}, request.precision, names, shader);
  shader.body().line();
  const Written written = write_program(prepared, names, request.precision, shader);
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
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, place, {}, request.precision) + values.bytes() +
                static_cast<std::uint32_t>(results) * number_bytes(request.precision);
  return facts;
}

BodyFacts write_reduce(const KernelRequest& request, Shader& shader) {
  expect_count(request, "outputs", 1, request.program.outputs.size());
  const Precision sums = request.wide_sums ? Precision::f64 : request.precision;
  const Summation summation(sums, request.workgroup_size, request.use_subgroups);
  const Prepared prepared = prepare(request.program, true);
  const LeafPlace place{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  summation.begin(shader, "sum");
  shader.body().line("uint grid = gl_NumWorkGroups.x * ", unsigned_literal(request.workgroup_size),
                     ";");
  shader.body().open("for (uint i = gl_GlobalInvocationID.x + first; i < count; i += grid)");
  write_loads(prepared, place, {}, request.precision, names, shader);
  shader.body().line();
  const Written written = write_program(prepared, names, request.precision, shader);
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
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, place, {}, request.precision);
  return facts;
}

BodyFacts write_scatter(const KernelRequest& request, Shader& shader) {
  const ValuesText values(request);
  const std::size_t results = own_outputs(request, values);
  expect_count(request, "targets", results, request.targets.size());
  const Prepared prepared = prepare(request.program);
  const LeafPlace place{.layout = request.layout, .row = "i", .seed_row = "i", .own = {}};
  LeafNames names = leaf_names(request, request.program.leaves);
  open_instances(request, values, shader);
  const std::vector<std::string> positions =
      write_loads(prepared, place, request.targets, request.precision, names, shader);
  shader.body().line();
  const Written written = write_program(prepared, names, request.precision, shader);
  shader.body().line();
  declare_atomic_add(request, shader);
  for (std::size_t k = 0; k < results; ++k) {
    shader.body().line("add_to_results(", result_position(positions[k]), ", ", written.outputs[k],
                       ");");
  }
  close_instances(values, written, results, shader);
  BodyFacts facts;
  prepared.count_operations(facts.operations);
  facts.bytes = column_bytes(prepared, place, request.targets, request.precision) + values.bytes() +
                static_cast<std::uint32_t>(results) * number_bytes(request.precision);
  return facts;
}

}  // namespace topograd::codegen
