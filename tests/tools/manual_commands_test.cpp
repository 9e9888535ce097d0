// The commands in the manual exist, with their options and values.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <span>
#include <sstream>

#include "../../tools/command/arguments/command_text.hpp"
#include "../../tools/command/arguments/commands.hpp"
#include "../support/manual.hpp"
#include "../support/paths.hpp"

namespace topograd::test {
namespace {

using command::CommandText;
using command::OptionText;

/// The words of one line. A synopsis is read as a command: brackets and a comment are removed.
std::vector<std::string> words_of(std::string line) {
  line = line.substr(0, line.find(" #"));
  std::erase_if(line, [](char c) { return c == '[' || c == ']'; });
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

const CommandText* subcommand(const CommandText& command, const std::string& word) {
  for (const CommandText& sub : command.subcommands)
    if (sub.name == command.name + ' ' + word) return &sub;
  return nullptr;
}

/// The parts of a value: `a|b` and `a,b` stand for a and b.
std::vector<std::string> parts_of(const std::string& value) {
  std::vector<std::string> parts(1);
  for (const char c : value) {
    if (c == '|' || c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// True for capital letters, which the reader replaces.
bool is_placeholder(const std::string& word) {
  return std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string check_value(const OptionText& option, const std::string& value) {
  if (option.choices.empty()) return {};
  for (const std::string& part : parts_of(value)) {
    const bool known = std::ranges::find(option.choices, part) != option.choices.end();
    if (!known && !is_placeholder(part)) return option.name + " takes no " + part;
  }
  return {};
}

/// Problem with the words after `topograd`, or empty.
std::string check_topograd(const CommandText& root, std::span<const std::string> words) {
  const CommandText* command = &root;
  std::size_t k = 0;
  for (; k < words.size(); ++k) {
    const CommandText* sub = subcommand(*command, words[k]);
    if (sub == nullptr) break;
    command = sub;
  }
  if (!command->subcommands.empty() && k < words.size() && !words[k].starts_with("--"))
    return command->name + " has no command " + words[k];
  for (; k < words.size(); ++k) {
    if (!words[k].starts_with("--")) continue;
    const auto option = std::ranges::find(command->options, words[k], &OptionText::name);
    if (option == command->options.end()) return command->name + " has no option " + words[k];
    if (option->value.empty()) continue;
    if (k + 1 == words.size()) return words[k] + " needs a value";
    const std::string wrong = check_value(*option, words[++k]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

/// Problem with one line of a block `sh`, or empty.
std::string check_line(const CommandText& root, const std::string& line) {
  std::vector<std::string> words = words_of(line);
  static const std::regex assignment(R"(^[A-Za-z_.]+=.*$)");
  while (!words.empty() && std::regex_match(words.front(), assignment)) words.erase(words.begin());
  // Options of PETSc follow --.
  if (!words.empty() && words.front() == "mpirun")
    words = {std::ranges::find(words, "topograd"), std::ranges::find(words, "--")};
  if (words.empty()) return {};
  const std::string& program = words.front();
  const auto exists = [](const std::string& path) {
    return std::filesystem::exists(source_dir() / path);
  };
  constexpr std::string_view kSamples = "build/bin/samples/", kBuilt = "build/bin/";
  if (program == "topograd" || program.ends_with("/bin/topograd"))
    return check_topograd(root, std::span(words).subspan(1));
  if (program.starts_with("scripts/") || program.starts_with("tests/"))
    return exists(program) ? "" : "no file " + program;
  if (program == "python3" && words.size() > 1)
    return exists(words[1]) ? "" : "no file " + words[1];
  if (program.starts_with(kSamples)) {
    const std::string source = "samples/" + program.substr(kSamples.size()) + ".cpp";
    return exists(source) ? "" : "no file " + source;
  }
  if (program.starts_with("build/bin/bench_")) {
    const std::string source =
        "bench/" + program.substr(kBuilt.size() + std::string_view("bench_").size()) + ".cpp";
    return exists(source) ? "" : "no file " + source;
  }
  if (program.starts_with("build/bin/tests/test_")) {
    const std::string name = program.substr(std::string_view("build/bin/tests/test_").size());
    for (const auto& folder : std::filesystem::directory_iterator(source_dir() / "tests")) {
      const std::filesystem::path list = folder.path() / "CMakeLists.txt";
      if (std::filesystem::exists(list) &&
          read_file(list).find("topograd_test(" + name + "\n") != std::string::npos)
        return {};
    }
    return "no test " + name;
  }
  for (const char* known : {"cmake", "ctest", "export", "g++", "./first", "./build/first", "source",
                            "man", "pip", "sudo", "tar"})
    if (program == known) return {};
  return "unknown program " + program;
}

TEST(ManualCommands, Exist) {
  const CommandText root = command::command_text();
  int lines = 0;
  for (const Page& page : manual_pages()) {
    for (const Block& block : blocks_of(page.text)) {
      if (block.language != "sh") continue;
      for (const std::string_view line : lines_of(block.text)) {
        const std::string wrong = check_line(root, std::string(line));
        EXPECT_EQ(wrong, "") << page.path << ": " << line;
        ++lines;
      }
    }
  }
  EXPECT_GE(lines, 80);
}

/// What `topograd` without arguments prints: six lines, whose commands exist.
TEST(ManualCommands, FirstWordsAreCommands) {
  const std::string words = command::first_words();
  const std::vector<std::string_view> lines = lines_of(words);
  ASSERT_EQ(lines.size(), 6u);
  const CommandText root = command::command_text();
  for (const std::string_view line : lines) EXPECT_LE(line.size(), 100u) << line;
  for (std::size_t k = 1; k < lines.size(); ++k) {
    EXPECT_TRUE(lines[k].starts_with("  topograd ")) << lines[k];
    EXPECT_EQ(check_line(root, std::string(lines[k])), "") << lines[k];
  }
}

TEST(ManualCommands, CheckCanFail) {
  const CommandText root = command::command_text();
  const struct {
    const char *line, *wrong;
  } rows[] = {
      {"topograd solve springs --width 3 --backend cpu|vulkan [--json F]", ""},
      {"TOPOGRAD_BACKEND=cpu build/bin/topograd check ops --pairs # all", ""},
      {"topograd solv", "topograd has no command solv"},
      {"topograd solve springs --wdith 3", "topograd solve has no option --wdith"},
      {"topograd solve springs --backend gpus", "--backend takes no gpus"},
      {"topograd solve springs --backend B", ""},
      {"topograd solve springs --width", "--width needs a value"},
      {"scripts/none", "no file scripts/none"},
      {"build/bin/samples/first", ""},
      {"build/bin/samples/frist", "no file samples/frist.cpp"},
      {"rm -r x", "unknown program rm"},
  };
  for (const auto& row : rows) EXPECT_EQ(check_line(root, row.line), row.wrong) << row.line;
}

}  // namespace
}  // namespace topograd::test
