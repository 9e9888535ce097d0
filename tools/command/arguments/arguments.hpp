// Options, flags and subcommands of the command line; the library that reads them stays behind it.
#pragma once

#include "command_text.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace topograd::command {

struct CommandFacts;

/// One option of a command; refers to it while its CommandLine lives.
class Option {
 public:
  Option(CLI::Option& option, CommandFacts& facts) : option_(&option), facts_(&facts) {}
  Option& required(bool required = true);
  /// One word is a list, cut here.
  Option& delimiter(char delimiter);
  /// Numbers outside of low .. high are errors.
  Option& range(int low, int high);
  /// Help and completion list these values; whoever reads the value checks it.
  Option& choices(std::vector<std::string> values);
  /// Help shows this default; whoever reads the value applies it.
  Option& shown_default(const std::string& value);
  /// With other problems, the first positional argument, it is an error.
  Option& only_with(std::vector<std::string> problems);

 private:
  CLI::Option* option_;
  CommandFacts* facts_;
};

/// Where the value of an option goes; it is left alone if the option is not given.
using OptionTarget =
    std::variant<std::string*, int*, std::uint32_t*, std::uint64_t*, double*, std::optional<int>*,
                 std::optional<std::uint32_t>*, std::optional<std::uint64_t>*,
                 std::optional<double>*, std::vector<std::string>*, std::vector<double>*>;

/// A command or subcommand; refers to it while its CommandLine lives.
class Command {
 public:
  Command(CLI::App& app, CommandFacts& facts) : app_(&app), facts_(&facts) {}

  Command subcommand(const std::string& name, const std::string& description);
  /// Without one of its subcommands it is an error.
  void require_subcommand();
  /// Heading of the options that are added from here on.
  void group(const std::string& title);
  /// A complete command line, for the end of --help.
  void example(const std::string& line);
  /// An option with a value; a positional argument if the name begins with no dash.
  ///
  ///   target  must live as long as the callback
  Option option(const std::string& name, OptionTarget target, const std::string& description);
  /// An option for a file that is written at the end: Error{File} at once if it cannot be.
  Option output(const std::string& name, std::string* target, const std::string& description);
  /// An option without a value, which sets `target`, or clears it if "!" precedes its name.
  Option flag(const std::string& name, bool& target, const std::string& description);
  /// --version prints `text`.
  void version(const std::string& text);
  /// What the command does; what it throws leaves CommandLine::run().
  void callback(std::function<void()> run);

  /// Whether the option of this name was given.
  bool given(const std::string& option) const;
  /// The command with the options that were given, as they would be typed.
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
  /// Its outermost command.
  Command command() const { return Command(*app_, *facts_); }
  /// Its commands and options, as data.
  CommandText text() const;
  /// Reads the arguments, then runs the callback of the subcommand that they name. Returns false
  /// where they asked for help or the version, which is printed instead. Throws
  /// Error{InvalidArgument} for arguments that are none, and what callbacks throw.
  bool run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<CommandFacts> facts_;
};

}  // namespace topograd::command
