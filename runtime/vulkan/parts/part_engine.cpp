// Values of a part at its point.
#include "part_engine.hpp"

#include "../../../ir/error.hpp"
#include "../../device/check/rows.hpp"

#include <string>

namespace topograd::runtime::vulkan {
namespace {

/// Terms that are stored need a range, and whether they fit one depends on the division.
EngineOptions of_parts(EngineOptions options) {
  options.accumulation = Accumulation::gather_recompute;
  return options;
}

}  // namespace

PartEngine::PartEngine(const Model& model, const EngineOptions& options)
    : context_(open_context(of_parts(options))), problem_(context_, model) {
  problem_.arrange();
  terms_.build();
  v_ = StepVectors(context_, problem_.model(), 0);
  steps_ = std::make_unique<PartSteps>(part_, options.part, rows_, sums_);
}

PlanRecord PartEngine::plan() const {
  PlanRecord record{.device = device(),
                    .precision = std::string(codegen::name(context_.options.precision)),
                    .workgroup_size = context_.workgroup_size,
                    .product = "recompute"};
  sums_.choices().describe(record);
  return record;
}

std::unique_ptr<RowRunner> PartEngine::row_runner() const {
  return make_row_runner(LaunchContext(open_context(context_.options)));
}

void PartEngine::refresh(const Model&) {
  throw Error(ErrorCode::Unsupported, "vulkan: the part of a model cannot change");
}

void PartEngine::set_point(std::span<const double> x) {
  problem_.write(v_.x, x);
  steps_->moved();
}

}  // namespace topograd::runtime::vulkan
