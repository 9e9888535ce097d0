// Names of choices.
#include "plan_record.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

namespace topograd::runtime {

using codegen::Accumulation;

std::string_view name(ChosenBy by) {
  switch (by) {
    case ChosenBy::rule: return "rule";
    case ChosenBy::measured: return "measured";
    case ChosenBy::remembered: return "remembered";
    case ChosenBy::given: return "given";
    case ChosenBy::forced: return "forced";
  }
  return "";
}

ChosenBy parse_chosen_by(std::string_view text) {
  std::string names;
  for (const ChosenBy by : std::array{ChosenBy::rule, ChosenBy::measured, ChosenBy::remembered,
                                      ChosenBy::given, ChosenBy::forced}) {
    if (text == name(by)) return by;
    names += (names.empty() ? "" : ", ") + std::string(name(by));
  }
  throw Error(ErrorCode::InvalidArgument, "plan: expected chosen_by to be one of " + names +
                                              ", got \"" + std::string(text) + "\"");
}

std::string PlanChoice::text() const {
  const bool sweeps = std::ranges::any_of(candidates, &PlanCandidate::one_pass);
  const auto way = [&](Accumulation strategy, bool once) {
    return sweeps ? std::string(once ? "one sweep" : "sweeps of their own")
                  : std::string(codegen::name(strategy));
  };
  std::string out = name + ", " + pass + ": " + way(accumulation, one_pass) + " (" +
                    std::string(runtime::name(by));
  for (const PlanCandidate& one : candidates) {
    if (one.measured_us <= 0) continue;
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), " %.1f us", one.measured_us);
    out += ", " + way(one.accumulation, one.one_pass) + time.data();
  }
  return out + ")";
}

std::uint32_t size_class(std::uint64_t instances) {
  return instances == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(instances) - 1);
}

}  // namespace topograd::runtime
