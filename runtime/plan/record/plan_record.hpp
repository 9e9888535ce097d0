// The plan record: what was chosen for each batch, by whom, and from which figures.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../kernel_figures.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime {

/// Who made a choice.
enum class ChosenBy {
  rule,        ///< a cost estimate alone
  measured,    ///< a short measurement in this run
  remembered,  ///< a measurement of an earlier run on this device
  given,       ///< a plan record that was passed in
  forced       ///< an option
};
std::string_view name(ChosenBy by);
/// Throws Error{InvalidArgument} that lists the names.
ChosenBy parse_chosen_by(std::string_view text);

/// One way to sum a batch's terms by owner.
struct PlanCandidate {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  double estimate = 0;     ///< of the rule, bytes of traffic of one instance
  double measured_us = 0;  ///< median of an evaluation; 0 where it was not measured
  bool one_pass = false;   ///< of PlanChoice::one_pass
};

/// How sums of one batch are made in passes that accumulate.
struct PlanChoice {
  std::string topology;  ///< hash, 32 hexadecimal digits
  std::string name;      ///< label of its residuals
  std::string pass;      ///< "gradient", "jtjp", "hvp", "cost_gradient" or "values"
  std::uint64_t instances = 0;
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  ChosenBy by = ChosenBy::rule;
  std::vector<PlanCandidate> candidates;
  /// cost_gradient, values: one sweep gives what is not summed by owner, too.
  bool one_pass = false;
  // Of one evaluation; 0 with atomics. What is constant in bulk is left out once kernels without it
  // serve.
  std::uint64_t entries = 0;     ///< instances that blocks sum, over all blocks
  std::uint64_t operations = 0;  ///< functions count as one
  std::uint64_t bytes = 0;       ///< of columns, and of stored terms written and read

  /// "edge, gradient: gather_store (measured, gather_recompute 30.2 us, gather_store 24.0 us)".
  std::string text() const;
};

/// The choices of one engine. Taken from rules alone under EngineOptions::deterministic.
struct PlanRecord {
  std::string device;
  std::string precision;             ///< "f32" or "f64"
  std::uint32_t workgroup_size = 0;  ///< of kernels over instances and owners
  std::string product;  ///< of JᵀJ and a vector: "recompute", "stored_jacobian", "assembled"
  std::vector<PlanChoice> batches;
  /// Of the first kernels that were made; what the driver says of them where it offers
  /// VK_KHR_pipeline_executable_properties. No choice: it is not read back.
  std::vector<KernelFigures> kernels;

  bool empty() const { return batches.empty(); }
};

/// Instances of one size class are within a factor of two: the class is ⌊log₂ n⌋.
std::uint32_t size_class(std::uint64_t instances);

}  // namespace topograd::runtime
