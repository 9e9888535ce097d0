// Internal: traced expressions of the library, which apply to any tensors.
#pragma once

#include "../../frontend/traced_function.hpp"
#include "../../ir/program.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd::ops::detail {

/// Traces f of the elements of `tensors` tensors followed by `numbers` numbers, for compose():
/// tensors are parameter slots, numbers are uniform slots. C++ numbers in f are literals.
ir::Program program_of(std::uint32_t tensors, std::uint32_t numbers,
                       const std::function<std::vector<Value>(std::span<const Value>)>& f);

}  // namespace topograd::ops::detail
