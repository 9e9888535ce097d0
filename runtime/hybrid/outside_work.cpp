// Decisions about work that callers run themselves, and its records.
#include "outside_work.hpp"

namespace topograd::runtime::hybrid {

Decision OutsideWork::decide(const TaskShape& task) {
  const Decision decision = scheduler_.decide(task);
  recorder_.decided(task.operation, decision);
  return decision;
}

Decision OutsideWork::follow(const TaskShape& task, const Decision& placed) {
  const Decision decision = scheduler_.follow(task, placed);
  recorder_.decided(task.operation, decision);
  return decision;
}

void OutsideWork::routed(std::string_view operation, const Decision& decision) {
  recorder_.decided(operation, decision);
}

void OutsideWork::record(const TaskShape& task, const Decision& decision, const Outcome& outcome) {
  scheduler_.record(task, decision, outcome);
  ran(task, decision.target, outcome, decision);
}

void OutsideWork::ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
                      const Decision& decision) {
  recorder_.ran(task.operation, target, outcome, task.size, scheduler_.now());
  if (!recorder_.has_observer() || !outcome.success) return;
  recorder_.observe(task.operation, task.size,
                    {.device = devices_.name_of(target),
                     .on_cpu = target == kCpu,
                     .decision = decision,
                     .times = outcome.times,
                     .bytes_up = outcome.bytes_up,
                     .bytes_down = outcome.bytes_down,
                     .cache_hits = outcome.cache_hits});
}

void OutsideWork::read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                            std::uint64_t bytes, std::optional<double> us) {
  recorder_.read_back(operation, target, bytes);
  if (us) scheduler_.record_read_back(target, sent, bytes, *us);
}

void OutsideWork::record_fallback(const TaskShape& task, const Decision& decision,
                                  const Error& error) {
  recorder_.fell_back(task.operation, devices_.name_of(decision.target), error);
}

void OutsideWork::record_fallback(std::string_view operation, const std::string& device,
                                  const Error& error) {
  recorder_.fell_back(operation, device, error);
}

}  // namespace topograd::runtime::hybrid
