// The plan record: the choices for each batch, their origin and figures; also as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../../../codegen/kernel.hpp"
#include "../../../ir/enum_table.hpp"
#include "../../kernel_listing.hpp"

namespace topograd::runtime {

/// Origin of a choice.
enum class ChosenBy {
  rule,        ///< a cost estimate alone
  measured,    ///< a short measurement in this run
  remembered,  ///< a measurement of an earlier run on this device
  given,       ///< a plan record that was passed in
  forced       ///< an option
};
TG_ENUM_NAMES(ChosenBy)

/// One way to sum a batch's terms by block.
struct PlanCandidate {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  double estimate = 0;     ///< by the rule: bytes of traffic per instance
  double measured_us = 0;  ///< median of an evaluation; 0 if not measured
  bool one_pass = false;   ///< of PlanChoice::one_pass
};

/// Method of the sums of one batch in passes that accumulate.
struct PlanChoice {
  std::string topology;  ///< hash, 32 hexadecimal digits
  std::string name;      ///< label of its residuals
  std::string pass;      ///< "gradient", "jtjp", "hvp", "cost_gradient" or "values"
  std::uint64_t instances = 0;
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  ChosenBy by = ChosenBy::rule;
  std::vector<PlanCandidate> candidates;
  /// cost_gradient, values: one sweep also gives the values that are not summed by block.
  bool one_pass = false;
  // Counts of one evaluation; 0 with atomics. Fixed parts do not count once kernels skip them.
  std::uint64_t entries = 0;     ///< instances summed by blocks, over all blocks
  std::uint64_t operations = 0;  ///< a function counts as one
  std::uint64_t bytes = 0;       ///< columns, and stored terms written and read

  /// "edge, gradient: gather_store (measured, gather_recompute 30.2 us, gather_store 24.0 us)".
  std::string text() const;
};

/// The choices of one engine. Under EngineOptions::deterministic all follow rules.
struct PlanRecord {
  std::string device;
  std::string precision;             ///< "f32" or "f64"
  std::uint32_t workgroup_size = 0;  ///< of kernels over instances and blocks
  std::string product;  ///< of JᵀJ and a vector: "recompute", "stored_jacobian", "assembled"
  std::vector<PlanChoice> batches;
  /// The first kernels, with the driver's figures if it offers
  /// VK_KHR_pipeline_executable_properties. They are not choices and are not read back.
  std::vector<KernelFigures> kernels;

  bool empty() const { return batches.empty(); }
};

/// Instances of one size class are within a factor of two: the class is ⌊log₂ n⌋.
std::uint32_t size_class(std::uint64_t instances);

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
