// Sums of costs and stored rows in addition to a kernel's results.
#include "values.hpp"

namespace topograd::codegen {

ValuesText::ValuesText(const KernelRequest& request)
    : request_(request), sums_(request.wide_sums ? Precision::f64 : request.precision) {
  if (request.values.given) sum_.emplace(sums_, request.workgroup_size, request.use_subgroups);
}

void ValuesText::begin(Shader& shader) const {
  if (sum_) sum_->begin(shader, "cost");
}

void ValuesText::open_loop(std::string_view variable, Shader& shader) const {
  shader.body().line("uint grid = gl_NumWorkGroups.x * ", unsigned_literal(request_.workgroup_size),
                     ";");
  shader.body().open(text("for (uint ", variable, " = gl_GlobalInvocationID.x + first; ", variable,
                          " < count; ", variable, " += grid)"));
}

void ValuesText::add(const Written& written, std::size_t first, std::string_view row,
                     Shader& shader) const {
  if (!sum_) return;
  sum_->add(shader, "cost", written.outputs[first], request_.precision);
  for (std::uint32_t k = 0; k < request_.values.rows; ++k) {
    const auto rows = shader.use(BufferRole::rows, element_of(request_.precision), Access::write);
    const std::string offset = k == 0   ? std::string()
                               : k == 1 ? std::string("rows_stride + ")
                                        : text(unsigned_literal(k), " * rows_stride + ");
    shader.body().line(rows, "[", offset, row, "] = ", written.outputs[first + 1 + k], ";");
  }
}

void ValuesText::end(Shader& shader) const {
  if (!sum_) return;
  const auto costs = shader.use(BufferRole::costs, element_of(sums_), Access::write);
  shader.body().line();
  shader.body().line(scalar_type(sums_), " total = ", sum_->total(shader, "cost"), ";");
  shader.body().line("if (gl_LocalInvocationIndex == 0u) ", costs,
                     "[costs_first + gl_WorkGroupID.x] = total;");
}

std::uint32_t ValuesText::bytes() const {
  return request_.values.rows * (request_.precision == Precision::f32 ? 4 : 8);
}

}  // namespace topograd::codegen
