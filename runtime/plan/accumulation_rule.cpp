// Cost estimate for the choice between storing terms and evaluating them again.
#include "accumulation_rule.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/op.hpp"

#include <algorithm>

namespace topograd::runtime {
namespace {

constexpr std::uint64_t kFunctionCost = 20;  // operations of a library function
constexpr double kBytesOfOperation = 0.1;    // H200: 60 TFLOP/s in f32 and 30 in f64, 4.2 TB/s
constexpr double kBytesOfEmulated = 20;      // H200: springs' gradient with f64 by integers
constexpr std::uint64_t kStoreLimit = 1000;  // operations
// Operations of a kernel with the program of each block slot: their compile time and size are
// bounded (docs/running.md).
constexpr std::uint64_t kRepeatedLimit = 2000;
constexpr double kAdvantage = 2;                    // the accuracy of the estimates
constexpr double kClose = 4;                        // closer estimates may be measured
constexpr std::uint64_t kLeastMeasured = 1u << 14;  // instances; else launches are timed

/// Most block slots that one kernel serves: those of the groups in one array.
std::uint64_t most_block_slots(const TermShape& shape) {
  std::uint64_t most = 1;
  for (const SlotGroup& group : shape.groups)
    most = std::max<std::uint64_t>(
        most, std::ranges::count(shape.groups, group.array, &SlotGroup::array));
  return most;
}

}  // namespace

AccumulationEstimate estimate_accumulation(const TermShape& shape, Pass pass,
                                           codegen::Precision precision, codegen::Float64 float64) {
  const std::vector<std::uint32_t> written = slots_of(shape, pass);
  const ir::Program all = shape_program(shape, pass, written);
  AccumulationEstimate estimate;
  for (const ir::Node& node : all.nodes) {
    if (ir::is_leaf(node.op)) continue;
    estimate.operations += ir::info(node.op).function.empty() ? 1 : kFunctionCost;
  }
  const bool wide = precision == codegen::Precision::f64;
  const bool emulated = wide && float64 == codegen::Float64::emulated;
  const double number = wide ? 8 : 4;
  const auto slots = static_cast<double>(written.size());
  const double columns = stored_bytes(shape.layout, static_cast<std::uint32_t>(number));
  const double once =
      (emulated ? kBytesOfEmulated : kBytesOfOperation) * static_cast<double>(estimate.operations) +
      columns + number * slots;
  const auto block_slots = static_cast<double>(std::max<std::size_t>(shape.groups.size(), 1));
  estimate.recompute = block_slots * once;
  estimate.repeated = estimate.operations * most_block_slots(shape);
  // Terms are written, and read with the position of their instance.
  estimate.store = once + 2 * number * slots + 4 * block_slots;
  return estimate;
}

bool is_long(const AccumulationEstimate& estimate) {
  return estimate.operations > kStoreLimit || estimate.repeated > kRepeatedLimit;
}

codegen::Accumulation short_accumulation(const TermShape& shape, Pass pass,
                                         codegen::Accumulation strategy) {
  if (strategy != codegen::Accumulation::gather_recompute) return strategy;
  return is_long(estimate_accumulation(shape, pass, codegen::Precision::f64))
             ? codegen::Accumulation::gather_store
             : strategy;
}

codegen::Accumulation choose_accumulation(const AccumulationEstimate& estimate) {
  const bool store = is_long(estimate) || estimate.recompute > kAdvantage * estimate.store;
  return store ? codegen::Accumulation::gather_store : codegen::Accumulation::gather_recompute;
}

bool large_enough_to_measure(std::uint64_t instances) { return instances >= kLeastMeasured; }

bool worth_measuring(const AccumulationEstimate& estimate, std::uint64_t instances) {
  return large_enough_to_measure(instances) && !is_long(estimate) &&
         estimate.recompute > estimate.store && estimate.recompute < kClose * estimate.store;
}

}  // namespace topograd::runtime
