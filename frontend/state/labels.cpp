// Texts with numbers, each stored once.
#include "labels.hpp"

namespace topograd::detail {

std::uint32_t Labels::number(std::string_view text) {
  if (text.empty()) return 0;
  if (texts_[last_] == text) return last_;  // loops repeat their label
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return last_ = known->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return last_ = number;
}

}  // namespace topograd::detail
