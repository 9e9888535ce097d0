// Comparison with golden files, and rewriting them.
#include "golden.hpp"

#include "paths.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace topograd::test {
namespace {

bool updating() {
  const char* value = std::getenv("TOPOGRAD_UPDATE_GOLDEN");
  return value != nullptr && std::string_view(value) == "1";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The first line that differs, with the two lines before it.
std::string first_difference(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> old_lines = lines_of(expected), new_lines = lines_of(actual);
  std::size_t at = 0;
  while (at < old_lines.size() && at < new_lines.size() && old_lines[at] == new_lines[at]) ++at;
  std::ostringstream out;
  out << "line " << at + 1 << ":\n";
  for (std::size_t k = at < 2 ? 0 : at - 2; k < at; ++k) out << "    " << old_lines[k] << '\n';
  out << "  - " << (at < old_lines.size() ? old_lines[at] : "(end of file)") << '\n';
  out << "  + " << (at < new_lines.size() ? new_lines[at] : "(end of text)") << '\n';
  return out.str();
}

struct Case {
  std::string name, input;
};

std::vector<Case> read_cases(const std::string& text) {
  std::vector<Case> cases;
  bool in_input = false;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), ""});
      in_input = true;
    } else if (line == "---") {
      in_input = false;
    } else if (in_input) {
      cases.back().input += line + '\n';
    }
  }
  return cases;
}

}  // namespace

void expect_golden(const std::string& relative_path, const std::string& actual) {
  const std::filesystem::path path = source_dir() / relative_path;
  if (updating()) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  if (!std::filesystem::exists(path)) {
    ADD_FAILURE() << relative_path << " is missing; TOPOGRAD_UPDATE_GOLDEN=1 writes it:\n"
                  << actual;
    return;
  }
  const std::string expected = read_file(path);
  if (expected == actual) return;
  ADD_FAILURE() << relative_path << " differs at " << first_difference(expected, actual)
                << "TOPOGRAD_UPDATE_GOLDEN=1 rewrites it.";
}

void expect_golden_cases(const std::string& relative_path,
                         const std::function<std::string(const std::string&)>& run) {
  const std::vector<Case> cases = read_cases(read_file(source_dir() / relative_path));
  EXPECT_FALSE(cases.empty()) << relative_path << " has no case";
  std::string actual;
  for (const Case& c : cases) {
    std::string result;
    try {
      result = run(c.input);
    } catch (const std::exception& error) {
      result = std::string("error: ") + error.what() + '\n';
    }
    actual += "=== " + c.name + '\n' + c.input + "---\n" + result;
  }
  expect_golden(relative_path, actual);
}

}  // namespace topograd::test
