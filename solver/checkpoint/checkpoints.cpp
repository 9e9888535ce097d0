// Files of checkpoints, when they are written, and what is in them.
#include "checkpoints.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/machine/output_file.hpp"
#include "../../runtime/cache/content_hash.hpp"

namespace topograd {
namespace {

constexpr std::string_view kMagic = "TGCHECK\n";
constexpr std::uint64_t kVersion = 1;

struct Header {
  std::array<char, 8> magic{};
  std::uint64_t version = kVersion, bytes = 0;
  runtime::Hash128 hash;
};
static_assert(sizeof(Header) == 40);

[[noreturn]] void refuse_bytes(const std::string& why) { throw Error(ErrorCode::Parse, why); }

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::File, "checkpoint \"" + path + "\" cannot be read: " + why);
}

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

std::vector<std::byte> seal_checkpoint(std::span<const std::byte> state) {
  Header header{.bytes = state.size(), .hash = runtime::hash_bytes(state)};
  std::memcpy(header.magic.data(), kMagic.data(), kMagic.size());
  std::vector<std::byte> file(sizeof header + state.size());
  std::memcpy(file.data(), &header, sizeof header);
  if (!state.empty()) std::memcpy(file.data() + sizeof header, state.data(), state.size());
  return file;
}

ir::StateRecord open_checkpoint(std::span<const std::byte> file) {
  Header header;
  if (file.size() >= kMagic.size()) std::memcpy(header.magic.data(), file.data(), kMagic.size());
  if (std::string_view(header.magic.data(), header.magic.size()) != kMagic)
    refuse_bytes("it is not a checkpoint of Topograd");
  if (file.size() < sizeof header) refuse_bytes("its header is cut off");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kVersion)
    refuse_bytes("its format has version " + std::to_string(header.version) +
                 ", this program reads " + std::to_string(kVersion));
  const std::span<const std::byte> state = file.subspan(sizeof header);
  if (header.bytes != state.size())
    refuse_bytes("it has " + std::to_string(state.size()) +
                 " bytes after its header, which announces " + std::to_string(header.bytes));
  if (header.hash != runtime::hash_bytes(state))
    refuse_bytes("its checksum does not match its contents");
  return ir::StateRecord(std::vector<std::byte>(state.begin(), state.end()));
}

std::string write_checkpoint(const std::string& path, std::span<const std::byte> state) {
  return platform::write_durable_file(path, seal_checkpoint(state));
}

std::string read_checkpoint_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (!file) refuse_file(path, errno != 0 ? std::strerror(errno) : "it cannot be opened");
  constexpr std::streamoff kMost = std::streamoff{1} << 46;  // what a folder says that it has
  if (size < 0 || size > kMost) refuse_file(path, "it is not a regular file");
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  file.read(bytes.data(), size);
  if (!file) refuse_file(path, "reading fails");
  return bytes;
}

ir::StateRecord open_checkpoint(const std::string& path, const std::string& bytes) {
  try {
    return open_checkpoint(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    throw Error(error.code(), "checkpoint \"" + path + "\": " + error.what());
  }
}

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
