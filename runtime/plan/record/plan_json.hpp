// The plan record as JSON, to be kept and given back.
#pragma once

#include "plan_record.hpp"

#include <string>
#include <string_view>

namespace topograd::runtime {

/// {"device", "precision", "workgroup_size", "product", "batches": [{"topology", "name", "pass",
/// "instances", "accumulation", "chosen_by", "candidates": [{"accumulation", "estimate",
/// "measured_us", "one_pass"}], "one_pass"}], "kernels": [{"name", "workgroup_size", "glsl_ms",
/// "spirv_ms", "pipeline_ms", "origin", "figures"}]}, indented; figures where the driver gives
/// some.
std::string to_json(const PlanRecord& plan);

/// Reads what to_json() writes; what it does not know is skipped, candidates may be left out.
///
/// Throws Error{Parse} for text that is no JSON (with its place), or where a key is missing or of
/// another type; Error{InvalidArgument} for an unknown name.
PlanRecord parse_plan(std::string_view text);

}  // namespace topograd::runtime
