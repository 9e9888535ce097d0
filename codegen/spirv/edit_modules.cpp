// Insertion of modes in the order of the module layout, and replacement of opcodes.
#include "edit_modules.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"

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

using Module = std::vector<std::uint32_t>;

// Newer than the headers of the build.
constexpr std::uint32_t kTypeKhr = 4456, kLoadKhr = 4457, kStoreKhr = 4458, kMulAddKhr = 4459;
constexpr std::uint32_t kCapabilityKhr = 6022;
constexpr std::string_view kNv = "SPV_NV_cooperative_matrix", kKhr = "SPV_KHR_cooperative_matrix";
enum Use : std::uint32_t { kLeft, kRight, kSums, kUses };

/// Both names have the same number of words.
void rename_extension(std::span<std::uint32_t> words) {
  static_assert(kNv.size() / 4 == kKhr.size() / 4);
  for (std::size_t k = 0; k < words.size(); ++k) {
    words[k] = 0;
    for (std::size_t byte = 0; byte < 4 && 4 * k + byte < kKhr.size(); ++byte)
      words[k] |= static_cast<std::uint32_t>(static_cast<unsigned char>(kKhr[4 * k + byte]))
                  << (8 * byte);
  }
}

class MatrixRewriter {
 public:
  explicit MatrixRewriter(std::span<const std::uint32_t> module) : module_(module) {
    survey();
    for (std::uint32_t& id : uses_) id = bound_++;
  }

  Module write() {
    out_.assign(module_.begin(), module_.begin() + kSpirvHeaderWords);
    out_[3] = bound_;
    for_each_instruction(module_,
                         [&](const SpirvInstruction& op, std::size_t) { instruction(op); });
    return std::move(out_);
  }

 private:
  void survey() {
    for_each_instruction(module_, [&](const SpirvInstruction& op, std::size_t) {
      const auto& w = op.words;
      if (op.opcode == spv::OpTypeInt && w[2] == 32 && w[3] == 0) word_type_ = w[1];
      if (op.opcode == spv::OpTypeFloat && w[2] == 32) float_type_ = w[1];
      if (op.opcode == spv::OpSpecConstant) specialized_.insert(w[2]);
      if (op.opcode == spv::OpConstantTrue) trues_.insert(w[2]);
    });
    bound_ = module_[3];
  }

  void append(std::uint32_t opcode, std::initializer_list<std::uint32_t> operands,
              std::span<const std::uint32_t> rest = {}) {
    const std::size_t length = 1 + operands.size() + rest.size();
    out_.push_back(static_cast<std::uint32_t>(length << 16) | opcode);
    out_.insert(out_.end(), operands);
    out_.insert(out_.end(), rest.begin(), rest.end());
  }

  /// MemoryLayout: row or column major. It reuses the constants of the uses.
  std::uint32_t layout(std::uint32_t column_major) const {
    return uses_[trues_.contains(column_major) ? 1 : 0];
  }

  void instruction(const SpirvInstruction& op) {
    const auto& w = op.words;
    switch (op.opcode) {
      case spv::OpTypeCooperativeMatrixNV: {
        const Use use = w[2] == float_type_ ? kSums : specialized_.contains(w[4]) ? kRight : kLeft;
        return append(kTypeKhr, {w[1], w[2], w[3], w[4], w[5], uses_[use]});
      }
      case spv::OpCooperativeMatrixLoadNV:
        return append(kLoadKhr, {w[1], w[2], w[3], layout(w[5]), w[4]}, w.subspan(6));
      case spv::OpCooperativeMatrixStoreNV:
        return append(kStoreKhr, {w[1], w[2], layout(w[4]), w[3]}, w.subspan(5));
      case spv::OpCooperativeMatrixMulAddNV: return append(kMulAddKhr, {}, w.subspan(1));
      default: break;
    }
    const std::size_t at = out_.size();
    out_.insert(out_.end(), w.begin(), w.end());
    if (op.opcode == spv::OpCapability && w[1] == spv::CapabilityCooperativeMatrixNV)
      out_[at + 1] = kCapabilityKhr;
    if (op.opcode == spv::OpExtension && literal_string(w.subspan(1)) == kNv)
      rename_extension(std::span(out_).subspan(at + 1));
    if (op.opcode == spv::OpTypeInt && w[1] == word_type_) {
      for (std::uint32_t use = 0; use < kUses; ++use)
        append(spv::OpConstant, {word_type_, uses_[use], use});
    }
  }

  std::span<const std::uint32_t> module_;
  std::uint32_t word_type_ = 0, float_type_ = 0, bound_ = 0;
  std::set<std::uint32_t> specialized_, trues_;
  std::array<std::uint32_t, kUses> uses_{};  ///< constants 0, 1, 2
  Module out_;
};

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

std::vector<std::uint32_t> to_khr_matrices(std::span<const std::uint32_t> module) {
  if (!looks_like_spirv(module) ||
      for_each_instruction(module, [](const SpirvInstruction&, std::size_t) {}) != module.size()) {
    throw Error(ErrorCode::InvalidArgument,
                "to_khr_matrices: expected a whole SPIR-V module, got " +
                    std::to_string(module.size()) + " words that are none");
  }
  return MatrixRewriter(module).write();
}

std::uint64_t inlined_instructions(std::span<const std::uint32_t> module) {
  struct Function {
    std::uint64_t own = 0;
    std::vector<std::uint32_t> calls;
    std::optional<std::uint64_t> inlined;
  };
  std::unordered_map<std::uint32_t, Function> functions;
  std::uint32_t main = 0;
  Function* open = nullptr;
  for_each_instruction(module, [&](const SpirvInstruction& one, std::size_t) {
    if (one.opcode == spv::OpEntryPoint) main = one.words[2];
    if (one.opcode == spv::OpFunction) open = &functions[one.words[2]];
    if (open == nullptr) return;
    ++open->own;
    if (one.opcode == spv::OpFunctionCall) open->calls.push_back(one.words[3]);
  });
  // SPIR-V has no recursion.
  const std::function<std::uint64_t(std::uint32_t)> total = [&](std::uint32_t id) {
    Function& of = functions[id];
    if (!of.inlined) {
      std::uint64_t sum = of.own;
      for (const std::uint32_t called : of.calls) sum += total(called);
      of.inlined = sum;
    }
    return *of.inlined;
  };
  return total(main);
}

}  // namespace topograd::codegen
