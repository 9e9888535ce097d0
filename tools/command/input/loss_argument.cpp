// Robust losses as they are written on the command line.
#include "loss_argument.hpp"

#include "../../../ir/error.hpp"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::InvalidArgument,
              "--loss: expected trivial, huber:A, soft_l1:A, cauchy:A, arctan:A, tukey:A or "
              "tolerant:A,B, got \"" +
                  text + "\"");
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
  using Maker = Loss (*)(double);
  constexpr std::pair<std::string_view, Maker> kLosses[] = {{"huber", Loss::huber},
                                                            {"soft_l1", Loss::soft_l1},
                                                            {"cauchy", Loss::cauchy},
                                                            {"arctan", Loss::arctan},
                                                            {"tukey", Loss::tukey}};
  for (const auto& [known, make] : kLosses)
    if (name == known && given.size() == 1) return make(given[0]);
  if (name == "tolerant" && given.size() == 2) return Loss::tolerant(given[0], given[1]);
  refuse(text);
}

}  // namespace topograd::command
