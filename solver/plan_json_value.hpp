// Internal: the plan record as a part of larger JSON.
#pragma once

#include <topograd/runtime/plan_record.hpp>

#include <nlohmann/json.hpp>

namespace topograd {

nlohmann::ordered_json plan_value(const runtime::PlanRecord& plan);

}  // namespace topograd
