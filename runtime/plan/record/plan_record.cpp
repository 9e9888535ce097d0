// Names of choices.
#include "plan_record.hpp"

#include "../../../ir/machine/formatted.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

namespace topograd::runtime {

using codegen::Accumulation;

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
    out += ", " + way(one.accumulation, one.one_pass) +
           platform::formatted(" %.1f us", one.measured_us);
  }
  return out + ")";
}

std::uint32_t size_class(std::uint64_t instances) {
  return instances == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(instances) - 1);
}

}  // namespace topograd::runtime
