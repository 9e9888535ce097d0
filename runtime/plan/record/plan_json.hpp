// The plan record as JSON, to be kept and given back.
#pragma once

#include "plan_record.hpp"

#include <string>
#include <string_view>

namespace topograd::runtime {

/// Writes {"device", "precision", "workgroup_size", "product", "batches": [{"topology", "name",
/// "pass", "instances", "accumulation", "chosen_by", "candidates": [{"accumulation", "estimate",
/// "measured_us", "one_pass"}], "one_pass"}], "kernels": [{"name", "workgroup_size", "glsl_ms",
/// "spirv_ms", "pipeline_ms", "origin", "figures"}]}, indented; figures only if the driver gives
/// some.
std::string to_json(const PlanRecord& plan);

/// Reads the output of to_json(). Unknown keys are skipped, candidates may be missing.
///
/// Throws Error{Parse} for text that is not JSON (with the position), or if a key is missing or has
/// another type; Error{InvalidArgument} for an unknown name.
PlanRecord parse_plan(std::string_view text);

}  // namespace topograd::runtime
