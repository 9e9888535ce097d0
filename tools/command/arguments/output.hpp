// Where the command's results go: files, standard output, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace topograd::command {

/// Writes text to a file, or to standard output for "-". Who reads the file sees what was there or
/// all of the text, never a part. Throws Error{File}.
void write_text(const std::string& path, const std::string& text);
/// Throws Error{File} if what was printed could not be written, as on a full disk.
void flush_standard_output();
/// Before work whose results go there: throws Error{File} if they could not be written. Leaves the
/// path as it is.
void check_writable(const std::string& path);
/// The text of a file. Throws Error{File}.
std::string read_text(const std::string& path);
/// "topograd: warning: text" as one line on standard error.
void print_warning(std::string text);
/// Does nothing for an empty path.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// `work` with signals noted meanwhile (Interrupts).
std::function<void()> noting_signals(std::function<void()> work);
/// After all outputs: does nothing unless a signal came (Interrupts). Then one line on standard
/// error, "interrupted by SIGINT: " and what `outputs` says, and throws Interrupted.
void end_if_interrupted(const std::string& outputs);
/// Writes what a check found: `text` to standard output, unless the JSON goes there, and the JSON,
/// with "interrupted" if a signal came. Throws Interrupted then, and BoundBroken if `report` has
/// "broken".
void finish_check(const std::string& path, const std::string& text, nlohmann::ordered_json report);

}  // namespace topograd::command
