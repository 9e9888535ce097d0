// Internal: kernels that were written once and are kept for the process.
#pragma once

#include <topograd/ops/kernel_text.hpp>

#include <functional>
#include <string>

namespace topograd::ops::detail {

/// The kernel under that key, which says everything that its text depends on. Any thread may call.
const KernelText& stored_kernel(const std::string& key, const std::function<KernelText()>& make);

}  // namespace topograd::ops::detail
