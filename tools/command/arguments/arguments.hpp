// Options, flags and subcommands of the command line; hides the library that parses them.
#pragma once

#include "command_text.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): named by its library
class App;
class Option;
}  // namespace CLI

namespace topograd::command {

struct CommandFacts;

/// One option of a command; valid while its CommandLine lives.
class Option {
 public:
  Option(CLI::Option& option, CommandFacts& facts) : option_(&option), facts_(&facts) {}
  Option& required(bool required = true);
  /// Splits a single word into a list at this character.
  Option& delimiter(char delimiter);
  /// Rejects numbers outside of low .. high.
  Option& range(int low, int high);
  /// Lists these values in help and completion; the reader of the value checks it.
  Option& choices(std::vector<std::string> values);
  /// Shows this default in help; the reader of the value applies it.
  Option& shown_default(const std::string& value);
  /// Rejects the option for all other problems (the first positional argument).
  Option& only_with(std::vector<std::string> problems);
  /// For an output: it is a folder, which may be there or not, for these problems. What it writes
  /// is declared when the folder is known.
  Option& folder_with(std::vector<std::string> problems);
  /// For an output: also writes the file that `companion` names for a given path.
  Option& writes_also(std::function<std::string(const std::string&)> companion);

 private:
  CLI::Option* option_;
  CommandFacts* facts_;
};

/// Destination of an option's value; unchanged if the option is not given.
using OptionTarget =
    std::variant<std::string*, int*, std::uint32_t*, std::uint64_t*, double*, std::optional<int>*,
                 std::optional<std::uint32_t>*, std::optional<std::uint64_t>*,
                 std::optional<double>*, std::vector<std::string>*, std::vector<double>*>;

/// A command or subcommand; valid while its CommandLine lives.
class Command {
 public:
  Command(CLI::App& app, CommandFacts& facts) : app_(&app), facts_(&facts) {}

  Command subcommand(const std::string& name, const std::string& description);
  /// Makes a missing subcommand an error.
  void require_subcommand();
  /// Sets the heading of the options that are added next.
  void group(const std::string& title);
  /// Adds a complete command line at the end of --help.
  void example(const std::string& line);
  /// Adds an option with a value, or a positional argument if the name begins without a dash.
  ///
  ///   target  must outlive the callback
  Option option(const std::string& name, OptionTarget target, const std::string& description);
  /// Adds an option for a file written at the end: Error{File} at once if it is not writable.
  Option output(const std::string& name, std::string* target, const std::string& description);
  /// Adds an option without a value, which sets `target`, or clears it if "!" precedes its name.
  Option flag(const std::string& name, bool& target, const std::string& description);
  /// Adds --version, which prints `text`.
  void version(const std::string& text);
  /// Sets the function of the command; its exceptions leave CommandLine::run().
  void callback(std::function<void()> run);

  /// True if the option with this name was given.
  bool given(const std::string& option) const;
  /// The command with the given options, as a command line.
  std::string line() const;

 private:
  CLI::App* app_;
  CommandFacts* facts_;
};

/// A program's commands.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description);
  ~CommandLine();
  /// The outermost command.
  Command command() const { return Command(*app_, *facts_); }
  /// Its commands and options as data.
  CommandText text() const;
  /// Parses the arguments, then runs the callback of their subcommand. Returns false after printing
  /// help or the version. Throws Error{InvalidArgument} for invalid arguments, and what callbacks
  /// throw.
  bool run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<CommandFacts> facts_;
};

}  // namespace topograd::command
