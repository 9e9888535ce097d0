// Plan records of one batch in the disk cache.
#include "remembered_plans.hpp"

#include "../../../ir/error.hpp"
#include "plan_record.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <tuple>

namespace topograd::runtime {
namespace {

std::optional<PlanRecord> read(std::span<const std::byte> blob) {
  const std::string text(reinterpret_cast<const char*>(blob.data()), blob.size());
  try {
    PlanRecord plan = parse_plan(text);
    if (plan.batches.size() != 1 || plan.batches[0].candidates.size() != 2) return std::nullopt;
    for (const PlanCandidate& one : plan.batches[0].candidates)
      if (!(one.measured_us > 0)) return std::nullopt;
    return plan;
  } catch (const Error&) {
    return std::nullopt;  // of another version
  }
}

}  // namespace

std::optional<PlanChoice> recall_choice(DiskCache& disk, std::string_view kind, Hash128 key) {
  const auto blob = disk.load(kind, key);
  const auto plan = blob ? read(*blob) : std::nullopt;
  return plan ? std::optional(plan->batches[0]) : std::nullopt;
}

void remember(DiskCache& disk, std::string_view kind, Hash128 key, const PlanRecord& plan) {
  const std::string text = to_json(plan);
  disk.store(kind, key, std::as_bytes(std::span(text)));
}

std::vector<PlanRecord> remembered_plans(const DiskCache& disk) {
  std::vector<PlanRecord> found;
  for (const std::string_view kind : {kAccumulationPlans, kOnePassPlans}) {
    for (const std::vector<std::byte>& blob : disk.all(kind))
      if (auto plan = read(blob)) found.push_back(std::move(*plan));
  }
  std::ranges::sort(found, {}, [](const PlanRecord& plan) {
    const PlanChoice& made = plan.batches[0];
    return std::tuple(plan.device, plan.precision, made.name, made.topology, made.pass,
                      made.instances);
  });
  return found;
}

}  // namespace topograd::runtime
