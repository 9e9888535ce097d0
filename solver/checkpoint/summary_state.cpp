// History and counts of a solve as part of its checkpoint.
#include "summary_state.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

namespace topograd {
namespace {

/// One member of all steps.
template <class T>
void transfer_column(ir::StateRecord& record, std::string_view name,
                     std::vector<IterationSummary>& steps, T IterationSummary::*member) {
  std::vector<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>> values(steps.size());
  for (std::size_t k = 0; k < steps.size(); ++k)
    values[k] = static_cast<typename decltype(values)::value_type>(steps[k].*member);
  record.list(name, std::span(values));
  for (std::size_t k = 0; k < steps.size(); ++k) steps[k].*member = static_cast<T>(values[k]);
}

}  // namespace

void transfer_summary(ir::StateRecord& record, Summary& summary) {
  using Step = IterationSummary;
  std::vector<Step>& steps = summary.iterations;
  std::vector<std::int32_t> numbers;
  for (const Step& step : steps) numbers.push_back(step.iteration);
  record.list("iteration", numbers);
  if (numbers.empty()) record.refuse("iteration", "is an empty history");
  steps.resize(numbers.size());
  for (std::size_t k = 0; k < steps.size(); ++k) steps[k].iteration = numbers[k];
  transfer_column(record, "step is valid", steps, &Step::step_is_valid);
  transfer_column(record, "step is successful", steps, &Step::step_is_successful);
  transfer_column(record, "step is nonfinite", steps, &Step::step_is_nonfinite);
  transfer_column(record, "cost", steps, &Step::cost);
  transfer_column(record, "cost change", steps, &Step::cost_change);
  transfer_column(record, "gradient max norm", steps, &Step::gradient_max_norm);
  transfer_column(record, "gradient norm", steps, &Step::gradient_norm);
  transfer_column(record, "step norm", steps, &Step::step_norm);
  transfer_column(record, "relative decrease", steps, &Step::relative_decrease);
  transfer_column(record, "trust region radius", steps, &Step::trust_region_radius);
  transfer_column(record, "linear iterations", steps, &Step::linear_iterations);
  transfer_column(record, "step size", steps, &Step::step_size);
  transfer_column(record, "evaluations", steps, &Step::evaluations);
  transfer_column(record, "on device", steps, &Step::on_device);
  transfer_column(record, "iteration time", steps, &Step::iteration_time_in_seconds);
  transfer_column(record, "cumulative time", steps, &Step::cumulative_time_in_seconds);

  record.value("termination", summary.termination, Termination::INFEASIBLE);
  record.text("message", summary.message);
  record.value("initial cost", summary.initial_cost);
  record.value("final cost", summary.final_cost);
  record.value("optimality", summary.optimality);
  const auto most = static_cast<int>(steps.size());
  record.in_range("successful steps", summary.num_successful_steps, 0, most);
  record.in_range("unsuccessful steps", summary.num_unsuccessful_steps, 0, most);
  record.in_range("nonfinite steps", summary.num_nonfinite_steps, 0, most);
  record.in_range("repeated steps", summary.num_repeated_steps, 0, most);
  record.in_range("escapes", summary.num_escapes, 0, most);
  record.in_range("all linear iterations", summary.num_linear_iterations, 0, 1 << 30);
  record.value("cross-checked outputs", summary.cross_check.compared);
  record.value("cross-check differences", summary.cross_check.differences);
  record.value("evaluation seconds", summary.times.evaluation_seconds);
  record.value("linear solver seconds", summary.times.linear_solver_seconds);
}

}  // namespace topograd
