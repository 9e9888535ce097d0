// The form of a source file: its first line, its guard, its length, no marks of unfinished work.
#include "file_rules.hpp"

#include <algorithm>
#include <array>

#include "sources.hpp"

namespace topograd::test {
namespace {

// Each in two parts, so that this file passes its own check.
constexpr std::array<std::string_view, 4> kMarks = {
    "TO"
    "DO",
    "FIX"
    "ME",
    "XX"
    "X",
    "HA"
    "CK"};

bool in_word(char c) {
  return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t after = at + word.size();
    const bool starts = at == 0 || !in_word(text[at - 1]);
    if (starts && (after == text.size() || !in_word(text[after]))) return true;
  }
  return false;
}

/// A static object whose destructor exit() calls while other threads may still use it.
bool is_destroyed_at_exit(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with("static ") && !line.starts_with("inline static ")) return false;
  const std::string_view head = line.substr(0, line.find_first_of("=;({"));
  if (head.size() < line.size() && line[head.size()] == '(') return false;  // a function
  if (head.find('&') != head.npos || has_word(head, "constexpr")) return false;
  constexpr std::array<std::string_view, 8> kOwners = {
      "std::vector<", "std::map<",      "std::set<",       "std::string ",
      "std::deque<",  "std::function<", "std::unordered_", "std::unique_ptr<"};
  return std::ranges::any_of(kOwners,
                             [&](std::string_view owner) { return head.find(owner) != head.npos; });
}

bool is_of_library(std::string_view path) {
  constexpr std::array<std::string_view, 8> kFolders = {
      "ir/", "autodiff/", "frontend/", "codegen/", "runtime/", "solver/", "ops/", "api/"};
  return std::ranges::any_of(kFolders, [&](auto folder) { return path.starts_with(folder); });
}

}  // namespace

std::vector<std::string> form_violations(std::string_view path, std::string_view text) {
  std::vector<std::string> found;
  const auto complain = [&](const std::string& what) {
    found.push_back(std::string(path) + ": " + what);
  };
  const std::vector<std::string_view> lines = lines_of(text);
  constexpr std::size_t kShortestSentence = 10;
  if (lines.empty() || !lines[0].starts_with("// ") || lines[0].size() < kShortestSentence) {
    complain("the first line says in one line what is in the file");
  }
  if (path.ends_with(".hpp") && std::ranges::count(lines, "#pragma once") != 1) {
    complain("a header has one #pragma once");
  }
  for (const std::string_view mark : kMarks) {
    if (has_word(text, mark)) complain("contains " + std::string(mark));
  }
  if (!is_of_library(path)) return found;
  for (const std::string_view line : lines) {
    if (is_destroyed_at_exit(line))
      complain("exit() destroys this object; write static auto& x = *new …: " + std::string(line));
  }
  return found;
}

}  // namespace topograd::test
