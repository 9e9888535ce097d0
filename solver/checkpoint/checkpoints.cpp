// When checkpoints are written, and what is in them.
#include "checkpoints.hpp"

#include "../../ir/error.hpp"
#include "checkpoint_file.hpp"
#include "summary_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

[[noreturn]] void refuse_checkpoint(const std::string& path, ErrorCode code,
                                    const std::string& why) {
  throw Error(code, "checkpoint \"" + path + "\": " + why);
}

/// The tolerances that may differ in a solve that goes on.
std::array<double, 3> tolerances_of(const SolverOptions& options) {
  return {options.function_tolerance, options.gradient_tolerance, options.parameter_tolerance};
}

/// True for an end that the tolerances alone decided.
bool is_final(Termination termination) {
  return termination == Termination::CONVERGENCE || termination == Termination::FAILURE;
}

}  // namespace

Checkpoints::Checkpoints(const SolverOptions& options, Summary& summary, SolveGroup* group)
    : options_(options), summary_(summary), group_(group) {}

std::string Checkpoints::at_first(const std::function<std::string()>& f) const {
  return group_ == nullptr ? f() : group_->from_first(f);
}

bool Checkpoints::identify(SolveFacts facts, std::span<double> x) {
  facts_ = std::move(facts);
  x_.resize(x.size());
  if (std::exchange(identified_, true) || options_.resume.empty()) return false;
  const std::string& path = options_.resume;
  ir::StateRecord record =
      open_checkpoint(path, at_first([&] { return read_checkpoint_file(path); }));
  try {
    SolveFacts there;
    there.transfer(record);
    if (const std::string why = difference(facts_, there); !why.empty())
      refuse_checkpoint(options_.resume, ErrorCode::InvalidArgument,
                        "it is of another solve: " + why);
    std::array<double, 3> tolerances{};
    record.list("tolerances", std::span<double>(tolerances));
    bool finished = false;
    record.value("finished", finished);
    transfer_summary(record, summary_);
    record.list("point", std::span(x_));
    if (!std::ranges::all_of(x_, [](double v) { return std::isfinite(v); }))
      record.refuse("point", "is not finite");
    finished_there_ =
        finished && is_final(summary_.termination) && tolerances == tolerances_of(options_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Parse) throw;
    refuse_checkpoint(options_.resume, error.code(), error.what());
  }
  std::ranges::copy(x_, x.begin());
  summary_.resumed_step = summary_.num_iterations();
  summary_.resumed_seconds = summary_.iterations.back().cumulative_time_in_seconds;
  resumed_ = std::move(record);
  return true;
}

bool Checkpoints::restore(const Transfer& transfer) {
  ir::StateRecord record = std::move(*resumed_);
  resumed_.reset();
  try {
    if (around_) around_(record);
    transfer(record);
    record.require_end();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Parse) throw;
    refuse_checkpoint(options_.resume, error.code(), error.what());
  }
  return finished_there_;
}

bool Checkpoints::is_due(bool finished) const {
  if (options_.checkpoint.file.empty()) return false;
  if (written_ == 0 || finished) return true;
  if (summary_.iterations.empty() || !summary_.iterations.back().step_is_successful) return false;
  const auto late = [this] {
    const std::chrono::duration<double> since = Clock::now() - last_;
    return since.count() >= options_.checkpoint.every_seconds ? "late" : "";
  };
  return !at_first(late).empty();
}

// A group writes the head of its first process, since times differ.
std::vector<std::byte> Checkpoints::head(bool finished) {
  ir::StateRecord record;
  facts_.transfer(record);
  std::array<double, 3> tolerances = tolerances_of(options_);
  record.list("tolerances", std::span<double>(tolerances));
  record.value("finished", finished);
  transfer_summary(record, summary_);
  if (group_ == nullptr) return record.bytes();
  const std::string first = group_->from_first([&] {
    const auto* const at = reinterpret_cast<const char*>(record.bytes().data());
    return std::string(at, record.bytes().size());
  });
  const std::span<const std::byte> bytes = std::as_bytes(std::span(first));
  return {bytes.begin(), bytes.end()};
}

void Checkpoints::look(bool finished, const Transfer& transfer,
                       const std::function<void(std::span<double>)>& point) {
  if (!is_due(finished)) return;
  ir::StateRecord state, point_now;
  if (around_) around_(state);
  transfer(state);
  point(x_);
  point_now.list("point", std::span(x_));
  std::vector<std::byte> bytes = head(finished);
  for (const ir::StateRecord* record : {&point_now, &state})
    bytes.insert(bytes.end(), record->bytes().begin(), record->bytes().end());
  const std::string& path = options_.checkpoint.file;
  const std::string why = group_ == nullptr ? write_checkpoint(path, bytes)
                                            : group_->write(path, seal_checkpoint(bytes));
  last_ = Clock::now();
  if (why.empty()) {
    ++written_;
    summary_.checkpoint_note = std::to_string(written_) + " written to " + path +
                               ", the last after step " + std::to_string(summary_.num_iterations());
    summary_.checkpoint_warning.clear();
    return;
  }
  const std::string text = "cannot be written: " + why;
  if (written_ == 0) refuse_checkpoint(path, ErrorCode::File, text);
  summary_.checkpoint_warning =
      "checkpoint \"" + path + "\" " + text + "; " + summary_.checkpoint_note;
}

}  // namespace topograd
