// Output of the command: files, standard output, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace topograd::command {

/// Writes text to a file, or to standard output for "-". Readers see the old contents or the
/// complete text, never a part. Throws Error{File}.
void write_text(const std::string& path, const std::string& text);
/// Throws Error{File} if output could not be written, for example on a full disk.
void flush_standard_output();
/// Called before long work: throws Error{File} if `path` is not writable. Does not change the file.
void check_writable(const std::string& path);
/// The text of a file. Throws Error{File}.
std::string read_text(const std::string& path);
/// "topograd: warning: text" as one line on standard error.
void print_warning(std::string text);
/// Does nothing for an empty path.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// Runs `work` while signals are noted (Interrupts).
std::function<void()> noting_signals(std::function<void()> work);
/// Called after all output: if a signal came (Interrupts), prints one line to standard error,
/// "interrupted by SIGINT: " and `outputs`, and throws Interrupted.
void end_if_interrupted(const std::string& outputs);
/// Writes the result of a check: `text` to standard output, unless the JSON goes there, and the
/// JSON, with "interrupted" if a signal came. Then throws Interrupted, or BoundBroken if `report`
/// has "broken".
void finish_check(const std::string& path, const std::string& text, nlohmann::ordered_json report);

}  // namespace topograd::command
