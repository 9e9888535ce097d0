// Internal: the plan record as a part of larger JSON.
#pragma once

#include "plan_record.hpp"

#include <nlohmann/json.hpp>

namespace topograd::runtime {

nlohmann::ordered_json plan_value(const PlanRecord& plan);

}  // namespace topograd::runtime
