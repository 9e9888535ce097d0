// Robust losses as they are written on the command line.
#include "loss_argument.hpp"

#include "../../../frontend/by_name.hpp"
#include "../../../ir/error.hpp"

#include <charconv>
#include <string_view>
#include <vector>

namespace topograd::command {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  std::string known = "trivial";
  for (const LossRow& row : kLosses)
    known += ", " + std::string(row.name) + (number_count(row) == 1 ? ":A" : ":A,B");
  throw Error(ErrorCode::InvalidArgument,
              "--loss: expected one of " + known + ", got \"" + text + "\"");
}

std::vector<double> numbers(std::string_view list, const std::string& text) {
  std::vector<double> out;
  while (true) {
    const std::string_view word = list.substr(0, list.find(','));
    double value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size()) refuse(text);
    out.push_back(value);
    if (word.size() == list.size()) return out;
    list.remove_prefix(word.size() + 1);
  }
}

}  // namespace

Loss parse_loss(const std::string& text) {
  if (text.empty() || text == "trivial") return {};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(text);
  const std::string_view name = std::string_view(text).substr(0, colon);
  const std::vector<double> given = numbers(std::string_view(text).substr(colon + 1), text);
  const LossRow* const loss = find_loss(name);
  if (loss == nullptr || given.size() != number_count(*loss)) refuse(text);
  return make_loss(*loss, given);
}

}  // namespace topograd::command
