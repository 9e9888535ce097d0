// Replaces opcodes and adds the operands that NV's instructions lack.
#include "khr_matrices.hpp"

#include "../../ir/error.hpp"
#include "spirv_words.hpp"

#include <array>
#include <initializer_list>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace topograd::codegen {
namespace {

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

std::vector<std::uint32_t> to_khr_matrices(std::span<const std::uint32_t> module) {
  if (!looks_like_spirv(module) ||
      for_each_instruction(module, [](const SpirvInstruction&, std::size_t) {}) != module.size()) {
    throw Error(ErrorCode::InvalidArgument,
                "to_khr_matrices: expected a whole SPIR-V module, got " +
                    std::to_string(module.size()) + " words that are none");
  }
  return MatrixRewriter(module).write();
}

}  // namespace topograd::codegen
