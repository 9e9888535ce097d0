// Facts about a problem and its options, files of checkpoints, when they are written.
#include "checkpoints.hpp"

#include <algorithm>
#include <array>
#include <bit>
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
#include "../../ir/machine/platform.hpp"
#include "../../ir/text.hpp"
#include "../../runtime/cache/content_hash.hpp"
#include "../../runtime/plan/record/plan_record.hpp"

namespace topograd {
namespace {

using runtime::Hash128;

constexpr std::size_t kMostReported = 3;

template <class T>
void add(Hash128& hash, std::span<const T> values) {
  hash = runtime::hash_bytes(std::as_bytes(values), hash);
}

/// Indices, numbers, uniforms and residual rows of all instances of a term: the sum of a hash for
/// each of them, so that processes can add those of their shares.
Hash128 hash_of(const ProblemModel& problem, std::size_t t) {
  const runtime::Term& term = problem.model.terms[t];
  const ir::Batch& batch = *term.batch;
  const ModelShares* const shares = problem.shares.get();
  const std::uint64_t first = shares == nullptr ? 0 : shares->first_instance(t);
  const std::uint64_t first_row = shares == nullptr ? 0 : shares->first_row(term.energy);
  Hash128 sum;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    numbers.assign({first + i, first_row + batch.residual_row(i)});
    for (std::uint32_t c = 0; c < batch.parameter_columns(); ++c)
      numbers.push_back(batch.index(i, c));
    for (std::uint32_t c = batch.parameter_columns(); c < batch.index_columns(); ++c)
      numbers.push_back(std::bit_cast<std::uint64_t>(problem.model.uniforms[batch.index(i, c)]));
    for (std::uint32_t c = 0; c < batch.data_columns(); ++c)
      numbers.push_back(std::bit_cast<std::uint64_t>(batch.data(i, c)));
    const Hash128 one = runtime::hash_bytes(std::as_bytes(std::span(numbers)));
    sum.high += one.high;
    sum.low += one.low;
  }
  return shares == nullptr ? sum : shares->sum(sum);
}

class Facts {
 public:
  void add(std::string what, std::string value) {
    out.facts.push_back({std::move(what), std::move(value)});
  }
  void add(std::string what, std::string_view value) { add(std::move(what), std::string(value)); }
  void add(std::string what, const char* value) { add(std::move(what), std::string(value)); }
  void add(std::string what, double value) { add(std::move(what), ir::print_number(value)); }
  void add(std::string what, int value) { add(std::move(what), std::to_string(value)); }
  void add(std::string what, std::uint64_t value) { add(std::move(what), std::to_string(value)); }
  void add(std::string what, bool value) { add(std::move(what), value ? "true" : "false"); }
  void add(std::string what, const Hash128& value) {
    out.facts.push_back({std::move(what), runtime::hex(value), true});
  }

  SolveFacts out;
};

void add_problem(Facts& facts, const ProblemModel& problem, std::span<const double> x) {
  const runtime::Model& model = problem.model;
  facts.add("number of unknowns and constants", model.scalars);
  facts.add("number of residual rows", model.rows);
  Hash128 arrays;
  for (const runtime::ParameterArray& array : model.arrays) {
    for (const std::uint64_t value : {array.offset, array.blocks, std::uint64_t{array.width}})
      arrays.add(value);
  }
  facts.add("layout of the parameters", arrays);
  facts.add("number of topologies", std::uint64_t{model.terms.size()});
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    const std::string name = "\"" + term.name + "\" (topology " + std::to_string(t) + ")";
    facts.add("number of " + name, problem.instances(t));
    facts.add("expression of " + name, term.topology->hash);
    facts.add("loss of " + name,
              term.loss == nullptr ? Hash128{} : runtime::hash_text(ir::print(*term.loss)));
    facts.add("data of " + name, hash_of(problem, t));
  }
  Hash128 fixed, bounds, manifolds;
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    if (model.constant[k] == 0) continue;
    fixed.add(k);
    add<double>(fixed, x.subspan(k, 1));
  }
  add<double>(bounds, model.lower);
  add<double>(bounds, model.upper);
  const Problem& source = *problem.problem;
  for (std::size_t a = 0; source.has_manifolds() && a < model.arrays.size(); ++a) {
    for (std::size_t b = 0; b < model.arrays[a].blocks; ++b) {
      const Manifold* const manifold = source.manifold(a, b);
      manifolds = runtime::hash_text(manifold == nullptr ? "" : manifold->name() + "\n", manifolds);
    }
  }
  facts.add("fixed scalars", fixed);
  facts.add("bounds", bounds);
  facts.add("manifolds", manifolds);
  facts.add("number of residual blocks on the host", std::uint64_t{source.host_blocks().size()});
}

/// Options on which this scope has to agree.
void add_options(Facts& facts, const SolverOptions& o, OptionScope scope) {
  for (const SolverOption& option : option_table()) {
    if (option.scope == OptionScope::process ||
        (scope == OptionScope::steps && option.scope != scope))
      continue;
    if (option.name == "plan")  // a long text
      facts.add("plan", o.plan ? runtime::hash_text(runtime::to_json(*o.plan)) : Hash128{});
    else
      facts.add(std::string(option.name), text_of(option.get(o)));
  }
  facts.add("number of groups of elimination", std::uint64_t{o.linear_solver_ordering.size()});
}

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

void SolveFacts::transfer(ir::StateRecord& record) {
  std::uint64_t count = facts.size();
  record.value("facts", count);
  if (record.restores()) facts.clear();
  for (std::uint64_t k = 0; k < count; ++k) {
    Fact fact;
    if (!record.restores()) fact = facts[k];
    record.text("what", fact.what);
    record.text("value", fact.value);
    record.value("is a hash", fact.is_hash);
    if (record.restores()) facts.push_back(std::move(fact));
  }
}

SolveFacts facts_of(const ProblemModel& model, const SolverOptions& options,
                    const SolveBackend& where, std::span<const double> x) {
  Facts facts;
  facts.add("version of Topograd", TOPOGRAD_VERSION);
  add_problem(facts, model, x);
  facts.add("backend", where.backend);
  facts.add("linear solver", where.linear_solver);
  add_options(facts, options, OptionScope::steps);
  return std::move(facts.out);
}

SolveFacts facts_of(const SolverOptions& options, OptionScope scope) {
  Facts facts;
  add_options(facts, options, scope);
  return std::move(facts.out);
}

std::string difference(const SolveFacts& here, const SolveFacts& there) {
  std::string text;
  std::size_t reported = 0, more = 0;
  const auto tell = [&](const std::string& sentence) {
    if (reported == kMostReported) {
      ++more;
      return;
    }
    text += (reported++ == 0 ? "" : "; ") + sentence;
  };
  for (const SolveFacts::Fact& fact : here.facts) {
    const auto other = std::ranges::find(there.facts, fact.what, &SolveFacts::Fact::what);
    if (other == there.facts.end()) {
      tell("it says nothing of the " + fact.what);
    } else if (other->value == fact.value) {
      continue;
    } else if (fact.is_hash) {
      tell("different " + fact.what);
    } else {
      tell("the " + fact.what + " is " + fact.value + " here, " + other->value +
           " in the checkpoint");
    }
  }
  if (text.empty() && here.facts.size() != there.facts.size()) tell("it has more facts");
  if (more > 0) text += "; and " + std::to_string(more) + " more differ";
  return text;
}

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
