// A function of a few numbers, written with Values and traced once.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../ir/program.hpp"
#include "value/value.hpp"

namespace topograd::detail {

/// The purpose of a callable, in the words of messages.
struct StandsFor {
  std::string_view one;     ///< "an element"
  std::string_view all;     ///< "all elements"
  std::string_view advice;  ///< what to write instead of a number that differs between them
};

/// The message for a callable that gave one expression and then another one, because it counts its
/// calls or draws random numbers. Says what to write instead.
///
///   numbers  the pair that differs; empty if more than numbers differ
std::string not_repeatable(const StandsFor& calls,
                           const std::optional<std::pair<double, double>>& numbers);

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
