// Measurements first, then one run of a side without any, then guesses, then thresholds.
#include "decision.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {
namespace {

/// True if the device has been measured, the CPU has not, and the CPU cannot take very much longer:
/// one or two runs tell which is faster.
bool tries_cpu(const SideFacts& facts, const HybridOptions& options) {
  return options.explore_every != 0 && facts.on_device.measured && !facts.on_cpu.measured &&
         facts.most_cpu_us > 0 &&
         facts.most_cpu_us <= kUnknownFactor * facts.on_device.terms.total();
}

double needed_speed_up(const SideFacts& facts, double confidence, const HybridOptions& options) {
  // For any confidence: a slightly lower one is no reason to leave.
  if (facts.last == Side::device) return options.speed_up_sure / options.margin;
  return confidence >= options.sure_confidence ? options.speed_up_sure : options.speed_up_unsure;
}

}  // namespace

Side forced_side(const TaskShape& task, const HybridOptions& options) {
  switch (task.where) {
    case Override::cpu: return Side::cpu;
    case Override::device: return Side::device;
    case Override::none: break;
  }
  switch (options.force) {
    case Force::cpu: return Side::cpu;
    case Force::device: return Side::device;
    case Force::none: break;
  }
  return Side::none;
}

SideChoice choose_side(const SideFacts& facts, const HybridOptions& options) {
  const Prediction& cpu = facts.on_cpu;
  const Prediction& device = facts.on_device;
  SideChoice choice{.confidence = std::min(cpu.confidence, device.confidence)};
  if (cpu.terms.total() > 0 && device.terms.total() > 0)
    choice.speed_up = cpu.terms.total() / device.terms.total();
  const auto device_if = [&](bool chosen) { choice.side = chosen ? Side::device : Side::cpu; };
  if (cpu.measured && device.measured) {
    choice.needed = needed_speed_up(facts, choice.confidence, options);
    device_if(choice.speed_up >= choice.needed);
    choice.reason = choice.side == Side::device ? Reason::faster : Reason::slower;
  } else if (tries_cpu(facts, options)) {
    choice.reason = Reason::unmeasured;
  } else if (cpu.known() && device.known()) {
    choice.needed = options.speed_up_unsure;
    device_if(choice.speed_up >= choice.needed);
    choice.reason = Reason::guessed;
  } else {
    device_if(!facts.below_threshold);
    choice.reason = facts.below_threshold ? Reason::below_threshold : Reason::unmeasured;
  }
  return choice;
}

}  // namespace topograd::runtime::hybrid
