// Callables that run once and stand for many calls: each call must give the same expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

}  // namespace topograd::detail
