// Internal: generated kernel sources by the hash of their inputs.
#pragma once

#include "kernel_text.hpp"

#include <functional>

namespace topograd::ops {

/// The source for `key`, made once per process and never removed. Thread-safe.
const KernelText& kernel_for(const ir::Hash128& key, const std::function<KernelText()>& make);

/// A hash of numbers and of `kind`, which distinguishes kinds of kernels.
template <class... Parts>
ir::Hash128 key_of(std::string_view kind, const Parts&... parts) {
  ir::Hash128 key;
  ir::add_bytes(key, kind.data(), kind.size());
  (key.add(static_cast<std::uint64_t>(parts)), ...);
  return key;
}

}  // namespace topograd::ops
