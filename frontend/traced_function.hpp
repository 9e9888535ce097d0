// A function of a few numbers, written with Values and traced once.
#pragma once

#include "../ir/program.hpp"
#include "repeatable.hpp"
#include "value/value.hpp"

#include <functional>
#include <span>
#include <vector>

namespace topograd::detail {

/// A program whose parameter slot k is argument k, and the numbers of its data leaves.
struct TracedFunction {
  ir::Program program;
  std::vector<double> numbers;
};

/// Functions of the elements of arrays and tensors.
inline constexpr StandsFor kElementsOfArrays = {
    .one = "an element",
    .all = "all elements",
    .advice =
        "give the numbers of the elements in another array or tensor, which is another "
        "argument of the callable"};

/// Traces `f`, a function of `arguments` numbers. `f` runs twice and must give the same both times.
///
///   call   used in messages
///   calls  purpose of the function, likewise
///
/// Throws what Problem::add_residual throws, Error{Unsupported} for an `if` on a Value,
/// Error{InvalidArgument} for a function that gives another expression the second time.
TracedFunction trace_function(const char* call, std::size_t arguments,
                              const std::function<std::vector<Value>(std::span<const Value>)>& f,
                              const StandsFor& calls = kElementsOfArrays);

/// While one lives, residual blocks that its thread adds get topologies, however long they are.
class KernelsOnly {
 public:
  KernelsOnly();
  ~KernelsOnly();
  KernelsOnly(const KernelsOnly&) = delete;
  KernelsOnly& operator=(const KernelsOnly&) = delete;

  static bool in_force();
};

}  // namespace topograd::detail
