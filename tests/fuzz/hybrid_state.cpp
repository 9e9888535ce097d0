// A scheduler's learned data as text: reads back, merges, and decides.
#include "target.hpp"

#include "../../runtime/hybrid/routing/scheduler.hpp"
#include "../../runtime/hybrid/stored_knowledge.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::fuzz {

using namespace runtime::hybrid;

void hybrid_state(std::string_view text) {
  Knowledge knowledge;
  const auto read = [&] { knowledge = parse_knowledge(text); };
  if (!reads(read, {ErrorCode::Parse})) return;
  const std::string written = to_json(knowledge);
  require(to_json(parse_knowledge(written)) == written, "knowledge that does not read back");

  double now = 0;
  Scheduler scheduler({}, [&] { return now += 1e-6; });
  scheduler.add_device({.name = "device"});
  scheduler.merge(knowledge);
  scheduler.merge(knowledge);
  parse_knowledge(to_json(scheduler.knowledge()));
  const std::size_t kernels = std::min<std::size_t>(knowledge.kernels.size(), 8);
  for (std::size_t k = 0; k < kernels; ++k) {
    const TaskShape task{.kernel = knowledge.kernels[k].hash,
                         .operation = knowledge.kernels[k].operation,
                         .size = std::uint64_t{1} << (3 * k + 8)};
    const Decision decision = scheduler.decide(task);
    require(!explain(decision).empty(), "a decision without terms");
    require(!std::isnan(decision.speed_up), "a speed-up that is no number");
    require(decision.confidence >= 0 && decision.confidence <= 1, "a confidence beyond [0, 1]");
    scheduler.record(task, decision, {.times = {.kernel = 10}});
  }
}

}  // namespace topograd::fuzz
