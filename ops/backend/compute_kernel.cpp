// Writes the declarations around a kernel's body.
#include "compute_kernel.hpp"

#include "../../ir/error.hpp"

#include <bit>

namespace topograd::ops {
namespace {

std::string_view qualifier(Access access) {
  switch (access) {
    case Access::read: return "restrict readonly ";
    case Access::write: return "restrict writeonly ";
    case Access::exchange: return "coherent volatile ";
    case Access::read_write: break;
  }
  return "restrict ";
}

std::string push_constants(const KernelParts& parts) {
  std::string out = "layout(push_constant) uniform PushConstants {\n";
  for (const KernelArgument& a : parts.arguments) out += "  uint first_" + a.name + ";\n";
  out += "  uint zero_bits;  // 0, which compilers do not know\n";
  for (const std::string& word : parts.words) out += "  uint " + word + ";\n";
  return out + "};\n";
}

std::string buffers(const KernelParts& parts) {
  std::string out;
  for (std::size_t k = 0; k < parts.arguments.size(); ++k) {
    const KernelArgument& a = parts.arguments[k];
    out += "layout(std430, binding = " + std::to_string(k) + ") " +
           std::string(qualifier(a.access)) + "buffer Buffer_" + a.name + " { " + a.type + " " +
           a.name + "_elements[]; };\n#define " + a.name + "(i) " + a.name + "_elements[first_" +
           a.name + " + (i)]\n";
  }
  return out;
}

constexpr std::string_view kAccessors = R"(
uint linear_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint linear_item() { return linear_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
)";

void add_break(std::string& text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
}

}  // namespace

ComputeKernel make_kernel(const KernelParts& parts) {
  const auto arguments = static_cast<std::uint32_t>(parts.arguments.size());
  const auto words = static_cast<std::uint32_t>(parts.words.size());
  if (arguments + 1 > 32 || words > most_words(arguments)) {
    throw Error(ErrorCode::InvalidArgument,
                "make_kernel \"" + parts.name +
                    "\": expected at most 31 arguments and words, got " +
                    std::to_string(arguments) + " and " + std::to_string(words));
  }
  ComputeKernel out{
      .name = parts.name, .local_size = parts.local_size, .arguments = arguments, .words = words};
  std::string code = "#version 450\n";
  for (const std::string& extension : parts.extensions)
    code += "#extension " + extension + " : require\n";
  const auto& [x, y, z] = parts.local_size;
  code += "\nlayout(local_size_x = " + std::to_string(x) + ", local_size_y = " + std::to_string(y) +
          ", local_size_z = " + std::to_string(z) + ") in;\n\n";
  code += push_constants(parts) + "\n" + buffers(parts);
  code += kAccessors;
  if (!parts.functions.empty()) code += "\n" + parts.functions;
  add_break(code);
  code += "\nvoid main() {\n" + parts.body;
  add_break(code);
  code += "}\n";
  ir::add_bytes(out.hash, code.data(), code.size());
  out.glsl = "// " + parts.name + "\n" + code;
  return out;
}

std::array<std::uint32_t, 2> number_words(double number, bool wide) {
  if (!wide) return {std::bit_cast<std::uint32_t>(static_cast<float>(number)), 0};
  const auto bits = std::bit_cast<std::uint64_t>(number);
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

std::string number_source(std::string_view name, bool wide) {
  const std::string word(name);
  return wide ? "packDouble2x32(uvec2(" + word + "_low, " + word + "_high))"
              : "uintBitsToFloat(" + word + "_low)";
}

}  // namespace topograd::ops
