// Rules for the place of a factor, from facts alone.
#include "decide_factor.hpp"

#include <algorithm>

namespace topograd {

double device_factor_seconds(const runtime::FactorUse& use) {
  return use.operations / (use.narrow ? kNarrowFactorRate : kDeviceFactorRate) +
         kFactorStepSeconds * static_cast<double>(use.steps) +
         kDispatchSeconds * static_cast<double>(use.dispatches);
}

FactorChoice decide_factor(const FactorPlaceFacts& facts) {
  using Next = FactorChoice::Fact;
  if (facts.asked == FactorPlace::host || facts.asked == FactorPlace::cholmod)
    return {.place = facts.asked, .reason = FactorReason::asked_for};
  if (facts.asked == FactorPlace::device) {
    FactorChoice out{.place = FactorPlace::device, .reason = FactorReason::no_device};
    if (!facts.on_device) return out;
    if (!facts.device) return {.next = Next::device};
    out.reason = facts.device->possible ? FactorReason::asked_for : FactorReason::not_possible;
    return out;
  }
  if (!facts.on_device) return {.reason = FactorReason::no_device};
  if (facts.software) return {.reason = FactorReason::software};
  if (facts.unknowns < kLeastUnknowns) return {.reason = FactorReason::few};
  if (!facts.factor) return {.next = Next::factor};
  if (facts.factor->operations < kLeastOnDevice) return {.reason = FactorReason::few};
  if (!facts.device) return {.next = Next::device};
  if (!facts.device->possible) return {.reason = FactorReason::not_possible};
  FactorChoice out{
      .host_seconds = facts.factor->operations /
                      (kHostFactorRate * std::clamp(facts.threads, 1, kMostFactorThreads)),
      .device_seconds = device_factor_seconds(*facts.device)};
  const bool faster = out.device_seconds < out.host_seconds;
  out.place = faster ? FactorPlace::device : FactorPlace::host;
  out.reason = faster ? FactorReason::faster : FactorReason::slower;
  return out;
}

}  // namespace topograd
