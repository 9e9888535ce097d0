// Insertion of OpCapability, OpExtension and OpExecutionMode in the order of the module layout.
#include "float_controls.hpp"
#include <algorithm>
#include <array>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <string_view>
#include "../../ir/error.hpp"
#include "spirv_words.hpp"

namespace topograd::codegen {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kSpirv14 = 0x00010400u;  // float controls are core from this version on
constexpr std::string_view kExtension = "SPV_KHR_float_controls";

struct Mode {
  spv::ExecutionMode mode;
  spv::Capability capability;
  bool FloatWidthControls::*wanted;
};
constexpr std::array<Mode, 4> kModes = {{
    {spv::ExecutionModeSignedZeroInfNanPreserve, spv::CapabilitySignedZeroInfNanPreserve,
     &FloatWidthControls::signed_zero_inf_nan_preserve},
    {spv::ExecutionModeDenormPreserve, spv::CapabilityDenormPreserve,
     &FloatWidthControls::denorm_preserve},
    {spv::ExecutionModeDenormFlushToZero, spv::CapabilityDenormFlushToZero,
     &FloatWidthControls::denorm_flush_to_zero},
    {spv::ExecutionModeRoundingModeRTE, spv::CapabilityRoundingModeRTE,
     &FloatWidthControls::rounding_to_nearest_even},
}};

struct Execution {
  std::uint32_t entry, mode, width;
  auto operator<=>(const Execution&) const = default;
};

// The modes of a module, and the word indices at which new instructions are inserted.
struct Survey {
  std::set<std::uint32_t> capabilities, float_widths, entries;
  std::set<Execution> executions;
  bool extension = false;
  std::size_t after_capabilities = kSpirvHeaderWords;
  std::size_t after_extensions = kSpirvHeaderWords;
  std::size_t after_modes = kSpirvHeaderWords;
};

Survey survey(std::span<const std::uint32_t> module) {
  Survey s;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t at) {
    const std::size_t end = at + op.words.size();
    if (op.opcode == spv::OpCapability) {
      s.capabilities.insert(op.words[1]);
      s.after_capabilities = s.after_extensions = end;
    } else if (op.opcode == spv::OpExtension) {
      s.extension |= literal_string(op.words.subspan(1)) == kExtension;
      s.after_extensions = end;
    } else if (op.opcode == spv::OpEntryPoint) {
      s.entries.insert(op.words[2]);
      s.after_modes = end;
    } else if (op.opcode == spv::OpExecutionMode || op.opcode == spv::OpExecutionModeId) {
      if (op.words.size() >= 4) s.executions.insert({op.words[1], op.words[2], op.words[3]});
      s.after_modes = end;
    } else if (op.opcode == spv::OpTypeFloat) {
      s.float_widths.insert(op.words[2]);
    }
  });
  return s;
}

void append(Words& out, spv::Op op, std::initializer_list<std::uint32_t> operands) {
  out.push_back(static_cast<std::uint32_t>((operands.size() + 1) << 16) | op);
  out.insert(out.end(), operands);
}

void append_extension(Words& out) {
  const std::size_t words = kExtension.size() / 4 + 1;
  out.push_back(static_cast<std::uint32_t>((words + 1) << 16) | spv::OpExtension);
  for (std::size_t i = 0; i < words * 4; i += 4) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 4 && i + b < kExtension.size(); ++b) {
      word |= static_cast<std::uint32_t>(static_cast<unsigned char>(kExtension[i + b])) << (8 * b);
    }
    out.push_back(word);
  }
}

void check(std::span<const std::uint32_t> module, const FloatControls& controls) {
  if (!looks_like_spirv(module) ||
      for_each_instruction(module, [](const SpirvInstruction&, std::size_t) {}) != module.size()) {
    throw Error(ErrorCode::InvalidArgument,
                "add_float_controls: expected a whole SPIR-V module, got " +
                    std::to_string(module.size()) + " words that are none");
  }
  for (const FloatWidthControls* width : {&controls.f32, &controls.f64}) {
    if (width->denorm_preserve && width->denorm_flush_to_zero) {
      throw Error(ErrorCode::InvalidArgument,
                  "add_float_controls: denormals of one width cannot be both kept and flushed");
    }
  }
}

// Collects the instructions that one width needs and the module lacks.
void collect(const Survey& s, const FloatWidthControls& wanted, std::uint32_t width,
             std::set<std::uint32_t>& capabilities, Words& modes) {
  if (!s.float_widths.contains(width)) return;
  for (const Mode& m : kModes) {
    if (!(wanted.*m.wanted)) continue;
    for (std::uint32_t entry : s.entries) {
      if (s.executions.contains({entry, static_cast<std::uint32_t>(m.mode), width})) continue;
      append(modes, spv::OpExecutionMode, {entry, static_cast<std::uint32_t>(m.mode), width});
    }
    if (!s.capabilities.contains(m.capability)) capabilities.insert(m.capability);
  }
}

}  // namespace

std::vector<std::uint32_t> add_float_controls(std::span<const std::uint32_t> module,
                                              const FloatControls& controls) {
  check(module, controls);
  const Survey s = survey(module);
  std::set<std::uint32_t> wanted;
  Words modes, capabilities, extensions;
  collect(s, controls.f32, 32, wanted, modes);
  collect(s, controls.f64, 64, wanted, modes);
  for (std::uint32_t capability : wanted) append(capabilities, spv::OpCapability, {capability});
  if (!modes.empty() && module[1] < kSpirv14 && !s.extension) append_extension(extensions);

  Words out(module.begin(), module.end());
  const auto insert = [&](std::size_t at, const Words& words) {
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), words.begin(), words.end());
  };
  insert(s.after_modes, modes);  // from the back, so that earlier indices stay valid
  insert(s.after_extensions, extensions);
  insert(s.after_capabilities, capabilities);
  return out;
}

}  // namespace topograd::codegen
