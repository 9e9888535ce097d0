// Where the command's results go: files, standard output, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace topograd::command {

/// Writes text to a file, or to standard output for "-". Who reads the file sees what was there or
/// all of the text, never a part. Throws Error{File}.
void write_text(const std::string& path, const std::string& text);
/// Before work whose results go there: throws Error{File} if they could not be written. Leaves the
/// path as it is.
void check_writable(const std::string& path);
/// The text of a file. Throws Error{File}.
std::string read_text(const std::string& path);
/// "topograd: warning: text" as one line on standard error.
void print_warning(std::string text);
/// Does nothing for an empty path.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace topograd::command
