// Writes the command's results, metrics and traces of solves.
#include "output.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <streambuf>
#include <string_view>
#include <utility>

#include "../../../api/formats/packed_text.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../runtime/hybrid/routing/knowledge.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/routing.hpp"
#include "commands.hpp"

namespace topograd::command {
namespace {

using runtime::hybrid::TraceEvent;

std::string text_of(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

/// Steps in the lanes of their backends, within the solve, which is in the CPU's lane.
std::vector<TraceEvent> events_of(const Summary& s) {
  constexpr double kUs = 1e6;
  const PhaseTimes& times = s.times;
  std::vector<TraceEvent> events;
  if (times.build_seconds > 0) events.push_back({"build", "cpu", 0, kUs * times.build_seconds, {}});
  const double begin = kUs * times.build_seconds, total = kUs * times.total_seconds;
  events.push_back({"solve", "cpu", begin, total, {{"backend", s.backend}, {"why", s.why}}});
  if (s.iterations.empty()) return events;
  const double steps = kUs * s.iterations.back().cumulative_time_in_seconds;
  const double first = begin + std::max(0.0, total - steps);
  if (times.plan_seconds > 0)
    events.push_back({"plan", "cpu", begin, std::min(kUs * times.plan_seconds, first - begin), {}});
  for (const IterationSummary& i : s.iterations) {
    const double end = first + kUs * i.cumulative_time_in_seconds;
    const double us = kUs * i.iteration_time_in_seconds;
    const bool on_device = i.on_device && s.kernels_on_device > 0;
    events.push_back({"step " + std::to_string(i.iteration),
                      on_device ? s.device : "cpu",
                      end - us,
                      us,
                      {{"cost", text_of(i.cost)},
                       {"accepted", i.step_is_successful ? "yes" : "no"},
                       {"linear_iterations", std::to_string(i.linear_iterations)}},
                      on_device});
  }
  return events;
}

void warn(runtime::hybrid::LogLevel, const std::string& text) { print_warning(text); }

}  // namespace

/// Passes text on to another buffer, with ? for characters that a terminal obeys.
class VisibleText final : public std::streambuf {
 public:
  explicit VisibleText(std::streambuf& to) : to_(to) {}

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    visible_.clear();
    for (const char c : std::string_view(text, static_cast<std::size_t>(count))) add(c);
    const auto size = static_cast<std::streamsize>(visible_.size());
    return to_.sputn(visible_.data(), size) == size ? count : 0;
  }
  int sync() override { return to_.pubsync(); }

 private:
  void add(char c) {
    const auto code = static_cast<unsigned char>(c);
    const bool upper = code >= 0x80 && code < 0xa0;  // after \xc2: U+0080 to U+009F
    if (led_) visible_ += upper ? '?' : '\xc2';
    const bool rest = std::exchange(led_, c == '\xc2') && upper;
    if (led_ || rest) return;
    visible_ += (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f ? '?' : c;
  }

  std::streambuf& to_;
  std::string visible_;  // scratch
  bool led_ = false;     // the last character is the first byte of two
};

namespace {

/// The outputs of the command that runs.
std::vector<OutputFile>& declared() {
  static std::vector<OutputFile> outputs;
  return outputs;
}

[[noreturn]] void refuse_output(const OutputFile& output, const std::string& other) {
  throw Error(ErrorCode::InvalidArgument,
              output.option + ": expected another file than " + other + " has, got " + output.path);
}

}  // namespace

void declare_output(OutputFile output) {
  const std::string identity = platform::output_identity(output.path);
  for (const OutputFile& other : declared()) {
    if (!identity.empty() && platform::output_identity(other.path) == identity)
      refuse_output(output, other.option);
  }
  declared().push_back(std::move(output));
}

void declare_outputs(std::vector<OutputFile> outputs) {
  declared().clear();
  for (OutputFile& output : outputs) declare_output(std::move(output));
}

const std::string& input_file(const std::string& path, const std::string& replaced_by) {
  const std::string identity = platform::output_identity(path);
  for (const OutputFile& output : declared()) {
    if (!identity.empty() && platform::output_identity(output.path) == identity &&
        output.option != replaced_by)
      refuse_output(output, path);
  }
  return path;
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    flush_standard_output();
    return;
  }
  if (!platform::write_output_file(path, std::as_bytes(std::span(text))))
    throw Error(ErrorCode::File, path + ": cannot be written");
}

std::string visible(const std::string& text) {
  std::stringbuf out;
  VisibleText through(out);
  through.sputn(text.data(), static_cast<std::streamsize>(text.size()));
  return out.str();
}

struct TerminalGuard::Impl {
  /// Stands in for a stream's buffer.
  struct Guarded {
    explicit Guarded(std::ostream& guarded)
        : stream(guarded), original(stream.rdbuf()), visible(*original) {
      stream.rdbuf(&visible);
    }
    ~Guarded() { stream.rdbuf(original); }
    std::ostream& stream;
    std::streambuf* original;
    VisibleText visible;
  };
  std::optional<Guarded> out;
  Guarded errors{std::cerr};
};

TerminalGuard::TerminalGuard() : impl_(std::make_unique<Impl>()) {
  if (platform::is_terminal_output()) impl_->out.emplace(std::cout);
}
TerminalGuard::~TerminalGuard() = default;

void flush_standard_output() {
  if (!(std::cout << std::flush))
    throw Error(ErrorCode::File, "standard output: cannot be written");
}

void print_warning(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::cerr << "topograd: warning: " + text + "\n" << std::flush;
}

void check_writable(const std::string& path) {
  if (path.empty() || path == "-" || platform::can_write_output(path)) return;
  throw Error(ErrorCode::File, path + ": cannot be written");
}

std::string read_text(const std::string& path) { return read_packed_text(input_file(path)); }

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (!path.empty()) write_text(path, json.dump(2) + "\n");
}

void Outputs::attempt(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    errors_.push_back(error);
  } catch (const std::bad_alloc&) {
    errors_.emplace_back(ErrorCode::OutOfHostMemory, "out of memory");
  }
}

void Outputs::write(const std::string& path, const std::function<std::string()>& text) {
  if (!path.empty()) attempt([&] { write_text(path, text()); });
}

void Outputs::finish() const {
  if (errors_.empty()) return;
  std::string messages;
  for (const Error& error : errors_)
    messages += (messages.empty() ? "" : "; ") + std::string(error.what());
  throw Error(errors_.front().code(), messages);
}

std::function<void()> noting_signals(std::function<void()> work) {
  return [work = std::move(work)] {
    const Interrupts interrupts;
    work();
  };
}

void end_if_interrupted(const std::string& outputs) {
  if (!Interrupts::came()) return;
  print_warning(Interrupts::message() + ": " + outputs);
  throw Interrupted{Interrupts::signal()};
}

void finish_check(const std::string& path, const std::string& text, nlohmann::ordered_json report,
                  const std::function<void(Outputs&)>& more) {
  if (Interrupts::came()) report["interrupted"] = Interrupts::message();
  if (path != "-") std::cout << text << std::flush;
  Outputs outputs;
  outputs.attempt([&] { write_json(path, report); });
  if (more) more(outputs);
  outputs.finish();
  end_if_interrupted("the report has what was checked so far");
  if (report["broken"].get<bool>()) throw BoundBroken{};
}

void warn_of_fallbacks() {
  static std::once_flag once;
  std::call_once(once, [] { hybrid_executor().set_log(warn, runtime::hybrid::LogLevel::warning); });
}

std::string metrics_text(const std::string& path) {
  const runtime::hybrid::Executor& executor = hybrid_executor();
  return path.ends_with(".json") ? metrics_json(executor) : prometheus_text(executor);
}

std::string training_text(const std::string& path, const runtime::hybrid::Knowledge& knowledge) {
  return path.ends_with(".json") ? training_json(knowledge) : training_csv(knowledge);
}

std::string training_text(const std::string& path) {
  return training_text(path, hybrid_executor().scheduler().knowledge());
}

std::string trace_text(const Summary& summary, std::vector<TraceEvent> more) {
  std::vector<TraceEvent> events = events_of(summary);
  constexpr double kUs = 1e6;
  for (const runtime::ProfileEvent& event : summary.profile.events) {
    const runtime::KernelTime& row = summary.kernels[event.row];
    const bool on_device = row.work == runtime::TimedWork::device;
    events.push_back({row.name,
                      on_device ? summary.device : "cpu",
                      event.begin_us + kUs * summary.times.build_seconds,
                      event.us,
                      {},
                      on_device});
    if (!row.topology.empty()) events.back().arguments = {{"topology", row.topology}};
  }
  for (TraceEvent& event : more) {
    event.start_us += kUs * summary.times.build_seconds;
    events.push_back(std::move(event));
  }
  return runtime::hybrid::to_chrome_trace(std::move(events));
}

}  // namespace topograd::command
