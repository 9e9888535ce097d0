// Atomic addition of floating-point numbers.
#include "atomic_add.hpp"

namespace topograd::codegen {
namespace {

constexpr std::string_view kNativeAdd = R"(
void add_to_results(uint position, {T} value) {
  atomicAdd(results[position], value);
}
)";

}  // namespace

void declare_atomic_float(const KernelRequest& request, Shader& shader) {
  shader.use(BufferRole::results, element_of(request.precision), Access::read_write);
  shader.need_extension("GL_EXT_shader_atomic_float");
  shader.declare("add", substitute(kNativeAdd.substr(1),
                                   {{"T", std::string(scalar_type(request.precision))}}));
}

}  // namespace topograd::codegen
