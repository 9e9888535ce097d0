// Plan records as JSON.
#include "target.hpp"

#include "../../runtime/plan/record/plan_record.hpp"

namespace topograd::fuzz {

void plan_record(std::string_view text) {
  runtime::PlanRecord plan;
  const auto read = [&] { plan = runtime::parse_plan(text); };
  if (!reads(read, {ErrorCode::Parse, ErrorCode::InvalidArgument})) return;
  const std::string written = to_json(plan);
  require(to_json(runtime::parse_plan(written)) == written, "a plan that does not read back");
}

}  // namespace topograd::fuzz
