// The message about callables that give another expression each time.
#include "repeatable.hpp"

#include "../ir/text.hpp"

namespace topograd::detail {

std::string not_repeatable(const StandsFor& calls,
                           const std::optional<std::pair<double, double>>& numbers) {
  const std::string got = numbers ? "the number " + ir::print_number(numbers->first) +
                                        " and then " + ir::print_number(numbers->second)
                                  : std::string("another expression the second time");
  std::string text = "expected a callable that gives the same each time that it is called for ";
  text.append(calls.one) += ", got " + got + "; it runs once for ";
  text.append(calls.all) += ", so that what it counts or draws is the same in all of them: ";
  return text.append(calls.advice);
}

}  // namespace topograd::detail
