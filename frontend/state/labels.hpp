// Texts with numbers, each stored once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace topograd::detail {

/// The labels of a problem's blocks. Number 0 is the empty text.
class Labels {
 public:
  /// The number of an equal text, which is added if there is none.
  std::uint32_t number(std::string_view text);
  const std::string& text(std::uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_{std::string()};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;  // that was requested last
};

}  // namespace topograd::detail
