// HLSL, MSL and ESSL through SPIRV-Cross, with a table of what each cannot express.
#include "cross.hpp"
#include <array>
#include <set>
#include "cross_context.hpp"

namespace topograd::codegen {
namespace {

constexpr unsigned kHlslShaderModel = 60;
constexpr unsigned kEsslVersion = 310;

// SPIRV-Cross prints some of these anyway, but the dialect's compilers refuse the output.
struct Limit {
  SpvCapability capability;
  const char* feature;
  bool hlsl, msl, essl;  // true: the dialect has it
};
constexpr std::array<Limit, 13> kLimits = {{
    {SpvCapabilityInt64Atomics, "64-bit integer atomics", false, false, false},
    {SpvCapabilityAtomicFloat64AddEXT, "64-bit float atomics", false, false, false},
    {SpvCapabilityAtomicFloat64MinMaxEXT, "64-bit float atomics", false, false, false},
    {SpvCapabilityAtomicFloat32AddEXT, "32-bit float atomics", false, false, false},
    {SpvCapabilityAtomicFloat32MinMaxEXT, "32-bit float atomics", false, false, false},
    {SpvCapabilityCooperativeMatrixNV, "cooperative matrices", false, false, false},
    {SpvCapabilityFloat64, "64-bit floats", false, false, false},
    {SpvCapabilityInt64, "64-bit integers", false, true, false},
    {SpvCapabilityInt16, "16-bit integers", false, true, false},
    {SpvCapabilityFloat16, "16-bit floats", false, true, false},
    {SpvCapabilityInt8, "8-bit integers", false, true, false},
    {SpvCapabilityGroupNonUniformClustered, "clustered subgroup operations", false, false, true},
    {SpvCapabilityPhysicalStorageBufferAddresses, "buffer addresses", false, true, false},
}};

bool can_say(const Limit& limit, Dialect dialect) {
  switch (dialect) {
    case Dialect::HLSL: return limit.hlsl;
    case Dialect::MSL: return limit.msl;
    case Dialect::ESSL: return limit.essl;
  }
  return false;
}

spvc_backend backend_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::HLSL: return SPVC_BACKEND_HLSL;
    case Dialect::MSL: return SPVC_BACKEND_MSL;
    case Dialect::ESSL: return SPVC_BACKEND_GLSL;
  }
  return SPVC_BACKEND_NONE;
}

[[noreturn]] void refuse(Dialect dialect, const std::string& feature) {
  throw Error(ErrorCode::Unsupported,
              "cross: " + std::string(name(dialect)) + " cannot say: " + feature);
}

// Read from the words, because SPIRV-Cross cannot even parse some of these.
void check_limits(std::span<const std::uint32_t> module, Dialect dialect) {
  std::set<std::uint32_t> capabilities;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t) {
    if (op.opcode == SpvOpCapability) capabilities.insert(op.words[1]);
  });
  for (const Limit& limit : kLimits) {
    if (capabilities.contains(limit.capability) && !can_say(limit, dialect)) {
      refuse(dialect, limit.feature);
    }
  }
}

void set_options(const CrossContext& context, Dialect dialect) {
  spvc_compiler_options options = nullptr;
  context.expect(spvc_compiler_create_compiler_options(context.compiler(), &options));
  switch (dialect) {
    case Dialect::HLSL:
      context.expect(spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_HLSL_SHADER_MODEL,
                                                    kHlslShaderModel));
      // HLSL has no built-in number of workgroups: a constant buffer of that name provides it.
      spvc_compiler_hlsl_remap_num_workgroups_builtin(context.compiler());
      break;
    case Dialect::MSL:
      context.expect(spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_MSL_VERSION,
                                                    SPVC_MAKE_MSL_VERSION(2, 3, 0)));
      break;
    case Dialect::ESSL:
      context.expect(
          spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_GLSL_VERSION, kEsslVersion));
      context.expect(
          spvc_compiler_options_set_bool(options, SPVC_COMPILER_OPTION_GLSL_ES, SPVC_TRUE));
      break;
  }
  context.expect(spvc_compiler_install_compiler_options(context.compiler(), options));
}

}  // namespace

std::string cross(std::span<const std::uint32_t> module, Dialect dialect) {
  check_limits(module, dialect);
  const CrossContext context(module, backend_of(dialect), "cross");
  set_options(context, dialect);
  const char* text = nullptr;
  if (spvc_compiler_compile(context.compiler(), &text) != SPVC_SUCCESS) {
    refuse(dialect, context.last_error());
  }
  return text;
}

}  // namespace topograd::codegen
