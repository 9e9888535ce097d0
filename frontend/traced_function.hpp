// A function of a few numbers, written on Values and traced once.
#pragma once

#include "../ir/program.hpp"
#include "value/value.hpp"

#include <functional>
#include <span>
#include <vector>

namespace topograd::detail {

/// A program whose parameter slot k is argument k, and the numbers that its data leaves read.
struct TracedFunction {
  ir::Program program;
  std::vector<double> numbers;
};

/// Traces `f` of `arguments` numbers.
///
///   call  name for messages
///
/// Throws what Problem::add_residual throws, Error{Unsupported} for an `if` on a Value.
TracedFunction trace_function(const char* call, std::size_t arguments,
                              const std::function<std::vector<Value>(std::span<const Value>)>& f);

}  // namespace topograd::detail
