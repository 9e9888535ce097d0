// Places in JSON text, for messages.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace topograd::problem_file {

/// The text of the file that a path in a problem file names. Throws Error{File}.
using FileReader = std::function<std::string(const std::string& path)>;

/// A file's text, the name that messages call it by, and how the files that it names are read.
struct Document {
  std::string name;
  std::string_view text;
  FileReader read_file;
};

/// Byte at which the value that a JSON pointer ("/residuals/0/label") names begins, or where its
/// nearest ancestor does. The text is JSON. Cost: linear in the text before it.
std::size_t find_value(std::string_view text, std::string_view pointer);

/// Byte of the first key that its object has already, or npos. The text is JSON. Cost: linear in
/// the text, but for a logarithm in the keys of an object.
std::size_t find_repeated_key(std::string_view text);

/// Throws Error{Parse}: "name:line:column: message" for byte `at`.
[[noreturn]] void fail_at(const Document& document, std::size_t at, const std::string& message);

/// Throws Error{Parse}: "name:line:column: /pointer: message".
[[noreturn]] void fail(const Document& document, const std::string& pointer,
                       const std::string& message);

}  // namespace topograd::problem_file
