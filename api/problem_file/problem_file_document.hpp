// Positions in JSON text, for messages.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace topograd::problem_file {

/// Returns the text of a file that a problem file refers to. Throws Error{File}.
using FileReader = std::function<std::string(const std::string& path)>;

/// The text of a file, its name in messages, and the reader of the files that it refers to.
struct Document {
  std::string name;
  std::string_view text;
  FileReader read_file;
};

/// Byte offset of the value that a JSON pointer ("/residuals/0/label") refers to, or of its nearest
/// existing ancestor. The text must be valid JSON. Cost: linear in the text before it.
std::size_t find_value(std::string_view text, std::string_view pointer);

/// Byte offset of the first duplicate key of an object, or npos. The text must be valid JSON. Cost:
/// linear in the text, times a logarithm in the number of keys of an object.
std::size_t find_repeated_key(std::string_view text);

/// Throws Error{Parse}: "name:line:column: message" for byte `at`.
[[noreturn]] void fail_at(const Document& document, std::size_t at, const std::string& message);

/// Throws Error{Parse}: "name:line:column: /pointer: message".
[[noreturn]] void fail(const Document& document, const std::string& pointer,
                       const std::string& message);

}  // namespace topograd::problem_file
