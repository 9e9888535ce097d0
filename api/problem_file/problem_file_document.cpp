// Walks through JSON text to the value that a pointer refers to.
#include "problem_file_document.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <vector>

namespace topograd::problem_file {
namespace {

/// A position in valid JSON text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) { skip_space(); }

  std::size_t at() const { return at_; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// Skips one character and the whitespace after it.
  void step() {
    ++at_;
    skip_space();
  }

  /// Skips a string; returns the text between the quotes, with escapes unchanged.
  std::string_view string() {
    const std::size_t first = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    const std::string_view found = text_.substr(first, at_ - first);
    step();
    return found;
  }

  /// Skips a value of any depth.
  void value() {
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        string();
      } else if (c == '{' || c == '[') {
        ++depth;
        step();
      } else if (c == '}' || c == ']') {
        --depth;
        step();
      } else {
        at_ =
            std::min(text_.find_first_of(",:{}[]\" \t\r\n", std::max(at_ + 1, at_)), text_.size());
        skip_space();
      }
    } while (depth > 0 && at_ < text_.size());
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Removes the next key or index from a pointer; keys with / or ~ are matched in their escaped form.
std::string_view take_step(std::string_view& pointer) {
  pointer.remove_prefix(1);
  const std::string_view step = pointer.substr(0, pointer.find('/'));
  pointer.remove_prefix(step.size());
  return step;
}

// Moves from the beginning of an object or array to a member's value; false if there is none.
bool enter(Cursor& cursor, std::string_view step) {
  const bool object = cursor.peek() == '{';
  std::size_t wanted = 0;
  if (!object) std::from_chars(step.data(), step.data() + step.size(), wanted);
  const char end = object ? '}' : ']';
  cursor.step();
  for (std::size_t k = 0; cursor.peek() != end && cursor.peek() != '\0'; ++k) {
    bool found = k == wanted;
    if (object) {
      found = cursor.string() == step;
      cursor.step();
    }
    if (found) return true;
    cursor.value();
    if (cursor.peek() == ',') cursor.step();
  }
  return false;
}

}  // namespace

std::size_t find_value(std::string_view text, std::string_view pointer) {
  Cursor cursor(text);
  std::size_t found = cursor.at();
  while (!pointer.empty() && (cursor.peek() == '{' || cursor.peek() == '[')) {
    if (!enter(cursor, take_step(pointer))) break;
    found = cursor.at();
  }
  return found;
}

std::size_t find_repeated_key(std::string_view text) {
  Cursor cursor(text);
  std::vector<std::optional<std::set<std::string_view>>> open;  // keys so far; empty for lists
  bool at_key = false;
  for (char c = cursor.peek(); c != '\0'; c = cursor.peek()) {
    if (c == '"') {
      const std::size_t at = cursor.at();
      const std::string_view string = cursor.string();
      if (at_key && !open.back()->insert(string).second) return at;
      at_key = false;
      continue;
    }
    if (c == '{') open.emplace_back(std::in_place);
    if (c == '[') open.emplace_back();
    if (c == '}' || c == ']') open.pop_back();
    at_key = c == '{' || (c == ',' && open.back().has_value());
    cursor.step();
  }
  return std::string_view::npos;
}

void fail_at(const Document& document, std::size_t at, const std::string& message) {
  const std::string_view before = document.text.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  throw Error(ErrorCode::Parse, document.name + ":" + std::to_string(line) + ":" +
                                    std::to_string(column) + ": " + message);
}

void fail(const Document& document, const std::string& pointer, const std::string& message) {
  fail_at(document, find_value(document.text, pointer),
          (pointer.empty() ? "" : pointer + ": ") + message);
}

}  // namespace topograd::problem_file
