// Help, manual page, completion, suggestions and progress of the command.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "../../tools/command/arguments/command_text.hpp"
#include "../../tools/command/arguments/commands.hpp"
#include "../../tools/command/solve/progress.hpp"
#include "../support/paths.hpp"
#include "run_command.hpp"

namespace topograd::test {
namespace {

TEST(Suggestion, NamesTheClosest) {
  const std::vector<std::string> names = {"springs", "smooth", "arap", "--backend", "--points"};
  const struct {
    std::string word, name;
  } rows[] = {{"sprigns", "springs"},
              {"spring", "springs"},
              {"smoth", "smooth"},
              {"arp", "arap"},
              {"--bakend", "--backend"},
              {"--backends", "--backend"},
              {"nothing", ""},
              {"x", ""},
              {"", ""}};
  for (const auto& [word, name] : rows) EXPECT_EQ(command::closest(word, names), name) << word;
}

TEST(Progress, TimeLeftIsThatOfTheFirstLimit) {
  EXPECT_DOUBLE_EQ(command::seconds_left(10, 5, 100, 1e9), 45);
  EXPECT_DOUBLE_EQ(command::seconds_left(10, 5, 100, 20), 15);
  EXPECT_DOUBLE_EQ(command::seconds_left(0, 5, 4, 1e9), 20);
  EXPECT_DOUBLE_EQ(command::seconds_left(100, 5, 100, 1), 0);
  EXPECT_EQ(command::duration(12.4), "12 s");
  EXPECT_EQ(command::duration(180), "3 min");
  EXPECT_EQ(command::duration(9000), "2.5 h");
}

TEST(Progress, ComponentsThatAreDone) {
  EXPECT_EQ(command::components_text({.components_done = 100, .components = 400, .seconds = 2}),
            "100 of 400 components  2.0 s, about 6 s left");
  EXPECT_EQ(command::components_text({.components_done = 0, .components = 4, .seconds = 1}),
            "0 of 4 components  1.0 s, about 4 s left");
}

TEST(Help, ListsWhatAppliesToTheProblem) {
  const std::string all = topograd("solve --help").out,
                    springs = topograd("solve springs --help").out;
  for (const char* option :
       {"--width", "--backend", "--method", "Examples:", "Limits and tolerances:"})
    EXPECT_NE(springs.find(option), std::string::npos) << option << '\n' << springs;
  for (const char* option : {"--cameras", "--mesh", "--set"}) {
    EXPECT_NE(all.find(option), std::string::npos) << option;
    EXPECT_EQ(springs.find("\n  " + std::string(option)), std::string::npos) << option;
  }
  for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != all.npos; begin = end + 1)
    EXPECT_LE(end - begin, 100u) << all.substr(begin, end - begin);
}

TEST(Help, WithoutArgumentsSaysWhatToTry) {
  const CommandResult result = topograd("");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, command::first_words());
  EXPECT_EQ(result.err, "");
}

TEST(Help, VersionIsThatOfTheBuild) {
  const CommandResult result = topograd("--version");
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("topograd 0."), std::string::npos) << result.out;
}

TEST(ManualPage, HasEveryCommandAndOption) {
  const CommandResult result = topograd("man");
  EXPECT_EQ(result.status, 0);
  for (const char* text : {".TH TOPOGRAD 1", ".SH EXIT STATUS", ".SS topograd solve",
                           "\\fB\\-\\-backend\\fR", ".SS topograd check ops"})
    EXPECT_NE(result.out.find(text), std::string::npos) << text;
}

TEST(ManualPage, HasEveryVariable) {
  const std::string page = topograd("man").out;
  for (const char* variable : {"TOPOGRAD_BACKEND", "TOPOGRAD_HYBRID", "TOPOGRAD_VALIDATION"})
    EXPECT_NE(page.find(std::string("\n.B ") + variable + '\n'), page.npos) << variable;
  EXPECT_EQ(page.find('`'), page.npos);
}

/// Compares docs/reference/command-options.md after its first lines.
TEST(Manual, OptionsOfCommandsAreThoseOfTheCommand) {
  const std::filesystem::path path = source_dir() / "docs/reference/command-options.md";
  const std::string page = read_file(path), marker = "<!-- made from the command -->\n";
  const std::size_t at = page.find(marker);
  ASSERT_NE(at, page.npos);
  const std::string head = page.substr(0, at + marker.size());
  const std::string expected = head + command::manual_tables(command::command_text());
  if (std::getenv("TOPOGRAD_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << expected;
  EXPECT_EQ(read_file(path), expected) << "TOPOGRAD_UPDATE_GOLDEN=1 writes the page anew";
}

/// Completions of bash after `line`, whose last word is incomplete.
std::string completed(const std::string& line) {
  const std::string script = "source <(\"" + (program_dir() / "topograd").string() +
                             "\" completion bash); COMP_WORDS=(" + line +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _topograd; echo "
                             "${COMPREPLY[*]}";
  const std::filesystem::path out = std::filesystem::temp_directory_path() / "topograd_completed";
  const std::string shell = "bash -c '" + script + "' > " + out.string();
  EXPECT_EQ(std::system(shell.c_str()), 0);
  std::ifstream file(out);
  std::string words;
  std::getline(file, words);
  return words;
}

TEST(Completion, OffersCommandsOptionsAndValues) {
  EXPECT_EQ(completed("topograd so"), "solve");
  EXPECT_EQ(completed("topograd solve --back"), "--backend");
  EXPECT_EQ(completed("topograd solve springs --backend v"), "vulkan");
  EXPECT_EQ(completed("topograd check ro"), "routing");
}

}  // namespace
}  // namespace topograd::test
