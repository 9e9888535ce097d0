// Internal: expressions of the library's own, traced once and run on any tensors.
#pragma once

#include "../../frontend/traced_function.hpp"
#include "../../ir/program.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd::ops::detail {

/// f of elements of so many tensors, and of so many numbers behind them, as compose() takes it:
/// parameter slots, and uniform slots. C++ numbers in it are literals.
ir::Program program_of(std::uint32_t tensors, std::uint32_t numbers,
                       const std::function<std::vector<Value>(std::span<const Value>)>& f);

}  // namespace topograd::ops::detail
