// Statements that vector kernels share: loops over the grid, sums, places in the scalar buffer.
#include "text.hpp"

#include "conjugate_text.hpp"

namespace topograd::codegen {
VectorText::VectorText(const VectorKernelRequest& request, Shader& shader)
    : request_(request), shader_(shader), sums_(request.scalars, request.workgroup_size) {}

std::string VectorText::fill(std::string_view pattern) const {
  return substitute(pattern, {{"T", std::string(scalar_type(request_.vectors))},
                              {"S", std::string(scalar_type(request_.scalars))},
                              {"W", unsigned_literal(width())},
                              {"P", unsigned_literal(packed())},
                              {"G", unsigned_literal(request_.workgroup_size)}});
}

void VectorText::use(std::initializer_list<BufferRole> vectors, Access access) {
  for (const BufferRole role : vectors) shader_.use(role, element_of(request_.vectors), access);
}

void VectorText::scalars(std::initializer_list<Scalar> places, Access access) {
  use_scalars(shader_, BufferRole::scalars, request_.scalars, places, access);
}

void VectorText::predicate(BufferRole role) { write_predicate(shader_, request_.scalars, role); }

void VectorText::lines(std::string_view pattern) {
  if (pattern.starts_with('\n')) pattern.remove_prefix(1);
  shader_.body().lines(fill(pattern));
}

void VectorText::each(std::string_view pattern) {
  for (std::uint32_t j = 0; j < width(); ++j) {
    const std::string k = j == 0 ? "k" : text("k + ", unsigned_literal(j));
    shader_.body().line(substitute(fill(pattern), {{"j", std::to_string(j)}, {"k", k}}));
  }
}

void VectorText::open_grid(std::string_view variable, std::string_view end) {
  lines("uint grid = gl_NumWorkGroups.x * {G};");
  shader_.body().open("for (uint ", variable, " = gl_GlobalInvocationID.x; ", variable, " < ",
                      fill(end), "; ", variable, " += grid)");
}

void VectorText::add(std::string_view name, std::string_view pattern) {
  const std::string term = text(name, "_term");
  shader_.body().line("precise ", scalar_type(request_.scalars), " ", term, " = ", fill(pattern),
                      ";");
  sums_.add(shader_, name, term, request_.scalars);
}

void VectorText::partial(std::uint32_t index, const std::string& expression, BufferRole role) {
  const auto partials = shader_.use(role, element_of(request_.scalars), Access::write);
  const std::string row = index == 0   ? std::string()
                          : index == 1 ? std::string("out_stride + ")
                                       : unsigned_literal(index) + " * out_stride + ";
  const std::string value = text("total_", index);
  shader_.body().line(scalar_type(request_.scalars), " ", value, " = ", expression, ";");
  shader_.body().line("if (gl_LocalInvocationIndex == 0u) ", partials, "[out_first + ", row,
                      "gl_WorkGroupID.x] = ", value, ";");
}

void VectorText::store_partial(std::uint32_t index, std::string_view name, BufferRole role) {
  partial(index, sums_.total(shader_, name), role);
}

void VectorText::store_partial_max(std::uint32_t index, std::string_view name) {
  partial(index, workgroup_max(shader_, name, request_.scalars, request_.workgroup_size),
          BufferRole::partials);
}

void VectorText::total_of_partials(std::string_view total, std::string_view from,
                                   std::string_view count) {
  const auto partials = shader_.use(BufferRole::partials, element_of(request_.scalars));
  const std::string sum = text(total, "_sum");
  sums_.begin(shader_, sum);
  shader_.body().open("for (uint k = gl_LocalInvocationIndex; k < ", count, fill("; k += {G})"));
  sums_.add(shader_, sum, text(partials, "[", from, " + k]"), request_.scalars);
  shader_.body().close();
  shader_.body().line(scalar_type(request_.scalars), " ", total, " = ", sums_.total(shader_, sum),
                      ";");
}

void use_packed(VectorText& out) {
  constexpr std::string_view kPacked = R"(
// Place of (i, j) in the packed upper triangle of a block.
uint packed(uint width, uint i, uint j) {
  uint row = min(i, j);
  return row * (2u * width - row + 1u) / 2u + max(i, j) - row;
}
)";
  out.shader().declare("packed", kPacked.substr(1));
}

void open_entries(VectorText& out, const std::string& name) {
  out.open_grid("i");
  out.lines("uint area = slot_a * slot_b;");
  out.lines("uint " + name + " = first + i / area;");
  out.lines("uint a = i % area / slot_b;");
  out.lines("uint b = i % slot_b;");
}

void add_jacobian_products(VectorText& out) {
  out.lines(R"(
uint end = starts[m + 1u];
precise {S} sum = {S}(0);
for (uint e = starts[m]; e < end; ++e) {
  uint instance = entries[2u * e];
  uint groups = entries[2u * e + 1u];
  uint u = owners[(groups & 0xffffu) * 16u + a];
  uint v = owners[(groups >> 16u) * 16u + b];
  if (u == 0xffffffffu || v == 0xffffffffu) continue;
  for (uint row = 0u; row < blocks_first; ++row) {
    {T} left = first_operand[(row * out_first + u) * out_stride + instance];
    {T} right = first_operand[(row * out_first + v) * out_stride + instance];
    sum += {S}(left) * {S}(right);
  }
}
)");
}

std::string VectorText::not_finite(std::string_view expression) {
  return text(shader_.math_function("is_nan", request_.scalars), "(", expression, ") || ",
              shader_.math_function("is_inf", request_.scalars), "(", expression, ")");
}

}  // namespace topograd::codegen
