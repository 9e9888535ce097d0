// Atomic additions of floating-point numbers: by compare-and-swap of the bits, and natively.
#include "kernel_forms.hpp"

namespace topograd::codegen {
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
