// Internal: keys and constants of the kernels of tensors.
#include "kernel_store.hpp"

#include "../backend/kernel_store.hpp"

#include <bit>

namespace topograd::ops::detail {

const KernelText& stored_kernel(const std::string& key, const std::function<KernelText()>& make) {
  ir::Hash128 hash = key_of("tensor");
  ir::add_bytes(hash, key.data(), key.size());
  return kernel_for(hash, make);
}

std::array<std::uint32_t, 2> number_words(double number, bool wide) {
  if (!wide) return {std::bit_cast<std::uint32_t>(static_cast<float>(number)), 0};
  const auto bits = std::bit_cast<std::uint64_t>(number);
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

std::string number_text(std::string_view name, bool wide) {
  const std::string word(name);
  return wide ? "packDouble2x32(uvec2(" + word + "_low, " + word + "_high))"
              : "uintBitsToFloat(" + word + "_low)";
}

}  // namespace topograd::ops::detail
