// Output of the command: files, standard output, JSON, metrics and traces for dashboards.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../runtime/hybrid/task_record.hpp"
#include "../../../solver/summary.hpp"

namespace topograd::command {

/// A file that an option of the command writes.
struct OutputFile {
  std::string option, path;
};

/// Makes these the outputs of the command, for input_file(). Throws Error{InvalidArgument} if two
/// of them are the same file, also through links, or standard output. Devices such as /dev/null
/// accept several outputs.
void declare_outputs(std::vector<OutputFile> outputs);
/// Adds one.
void declare_output(OutputFile output);
/// The path of a file that is about to be read. Throws Error{InvalidArgument} if an output of the
/// command would overwrite it.
///
///   replaced_by  option whose output may have the same name, because it replaces what was read
const std::string& input_file(const std::string& path, const std::string& replaced_by = "");

/// While it lives, standard error, and standard output if it is a terminal, show ? for control
/// characters, which names in files may have and terminals obey.
class TerminalGuard {
 public:
  TerminalGuard();
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The text with ? for these characters, for what goes to standard error in another way.
std::string visible(const std::string& text);

/// Writes text to a file, or to standard output for "-". Readers see the old contents or the
/// complete text, never a part. Throws Error{File}.
void write_text(const std::string& path, const std::string& text);
/// Throws Error{File} if output could not be written, for example on a full disk.
void flush_standard_output();
/// Called before long work: throws Error{File} if `path` is not writable. Opens no file.
void check_writable(const std::string& path);
/// The text of an input file (input_file()). Throws Error{File}.
std::string read_text(const std::string& path);
/// "topograd: warning: text" as one line on standard error.
void print_warning(std::string text);
/// Does nothing for an empty path.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// Writes the outputs of finished work, the most important first: one that fails does not cost the
/// others.
class Outputs {
 public:
  /// Runs `write`, and keeps its error for finish().
  void attempt(const std::function<void()>& write);
  /// The same for text, which is only made if there is a path.
  void write(const std::string& path, const std::function<std::string()>& text);
  /// Throws one error with the messages of all that failed.
  void finish() const;

 private:
  std::vector<Error> errors_;
};

/// Runs `work` while signals are noted (Interrupts).
std::function<void()> noting_signals(std::function<void()> work);
/// Called after all output: if a signal came (Interrupts), prints one line to standard error,
/// "interrupted by SIGINT: " and `outputs`, and throws Interrupted.
void end_if_interrupted(const std::string& outputs);
/// Writes the result of a check: `text` to standard output, unless the JSON goes there, and the
/// JSON, with "interrupted" if a signal came. Then throws Interrupted, or BoundBroken if `report`
/// has "broken".
///
///   more  writes further outputs
void finish_check(const std::string& path, const std::string& text, nlohmann::ordered_json report,
                  const std::function<void(Outputs&)>& more = {});

/// From now on, prints a line to standard error when the CPU takes over from a failed device. Call
/// it before the first solve.
void warn_of_fallbacks();

/// The counters of the process's executor for a file of this name: JSON if it ends in .json, else
/// Prometheus text.
std::string metrics_text(const std::string& path);

/// The rows to which initial guesses are fitted, for a file of this name: JSON if it ends in .json,
/// else CSV.
std::string training_text(const std::string& path, const runtime::hybrid::Knowledge& knowledge);
/// The same for the executor of this process.
std::string training_text(const std::string& path);

/// Phases and steps of a solve as a Chrome trace, with one lane per backend.
///
///   more  events in other lanes, on a clock that begins with the solve
std::string trace_text(const Summary& summary, std::vector<runtime::hybrid::TraceEvent> more = {});

}  // namespace topograd::command
