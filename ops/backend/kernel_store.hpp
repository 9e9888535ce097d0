// Internal: texts of kernels that were generated, by what they were generated from.
#pragma once

#include "kernel_text.hpp"

#include <functional>

namespace topograd::ops {

/// The text for `key`, made once a process and never forgotten. Any thread may call.
const KernelText& kernel_for(const ir::Hash128& key, const std::function<KernelText()>& make);

/// Numbers folded into a hash, behind a word that tells kinds of kernels apart.
template <class... Parts>
ir::Hash128 key_of(std::string_view kind, const Parts&... parts) {
  ir::Hash128 key;
  ir::add_bytes(key, kind.data(), kind.size());
  (key.add(static_cast<std::uint64_t>(parts)), ...);
  return key;
}

}  // namespace topograd::ops
