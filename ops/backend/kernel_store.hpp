// Internal: the store of generated kernels, by the hash of their parameters.
#pragma once

#include "compute_kernel.hpp"

#include <functional>

namespace topograd::ops {

/// The kernel for `key`, made once per process and never removed. Thread-safe.
const ComputeKernel& kernel_for(const ir::Hash128& key, const std::function<ComputeKernel()>& make);
/// The same for a text that has all parameters of the source.
const ComputeKernel& kernel_for(std::string_view key, const std::function<ComputeKernel()>& make);

/// A hash of numbers and of `kind`, which distinguishes kinds of kernels.
template <class... Parts>
ir::Hash128 key_of(std::string_view kind, const Parts&... parts) {
  ir::Hash128 key;
  ir::add_bytes(key, kind.data(), kind.size());
  (key.add(static_cast<std::uint64_t>(parts)), ...);
  return key;
}

}  // namespace topograd::ops
