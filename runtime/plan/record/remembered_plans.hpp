// Measured choices in the disk cache, each as a plan record of one batch.
#pragma once

#include "../../cache/disk_cache.hpp"
#include "plan_record.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace topograd::runtime {

/// Kinds of blobs: the accumulation strategy of a pass; whether one sweep gives several values.
inline constexpr std::string_view kAccumulationPlans = "accumulation";
inline constexpr std::string_view kOnePassPlans = "one_pass";

/// Returns the choice with its two candidates, both measured, or nothing.
std::optional<PlanChoice> recall_choice(DiskCache& disk, std::string_view kind, Hash128 key);
/// Stores the only choice of `plan` under a key for kernels and size class.
void remember(DiskCache& disk, std::string_view kind, Hash128 key, const PlanRecord& plan);

/// All remembered plans, of any device and precision, each with one batch; sorted by device,
/// topology and pass. Cost: reads the folder.
std::vector<PlanRecord> remembered_plans(const DiskCache& disk);

}  // namespace topograd::runtime
