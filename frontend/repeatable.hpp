// Callables that run once and stand for many calls: they must give the same each time.
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

/// Says that a callable gave one expression and then another one, as one does that counts its calls
/// or draws numbers, and what to write instead.
///
///   numbers  in which the two differ; nothing if they differ in more
std::string not_repeatable(const StandsFor& calls,
                           const std::optional<std::pair<double, double>>& numbers);

}  // namespace topograd::detail
