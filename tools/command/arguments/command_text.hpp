// Commands and options as plain data, from which help, manual page and completion are made.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// One option or positional argument.
struct OptionText {
  std::string name;           ///< with dashes, except for positional arguments
  std::string value;          ///< placeholder of its value, such as FILE; empty for a flag
  std::string default_value;  ///< empty: none, or given in the description
  std::string description;
  std::string group;                   ///< heading under which it is listed
  std::vector<std::string> choices;    ///< accepted values; empty: any
  std::vector<std::string> only_with;  ///< problems that it applies to; empty: all
  bool required = false;

  bool positional() const { return !name.starts_with('-'); }
};

/// One command with its options and subcommands.
struct CommandText {
  std::string name;  ///< as typed, with the names of the enclosing commands
  std::string description;
  std::vector<std::string> examples;  ///< complete command lines
  std::vector<OptionText> options;
  std::vector<CommandText> subcommands;
};

/// The output of --help, at most 100 columns wide.
///
///   problem  lists only options that apply to this problem; empty: all, with their problems
std::string help_text(const CommandText& command, const std::string& problem = {});

/// The page for `man`, in man(7) format.
std::string manual_page(const CommandText& root, const std::string& version);

/// Tables of the options of each command for the manual, in Markdown.
std::string manual_tables(const CommandText& root);

/// Shell scripts that complete commands, options and their values.
std::string bash_completion(const CommandText& root);
std::string zsh_completion(const CommandText& root);

/// The candidate that `word` probably means (at most a third of its letters differ), or empty.
std::string closest(const std::string& word, std::span<const std::string> candidates);

/// `; did you mean "name"?`, or nothing.
std::string did_you_mean(const std::string& word, std::span<const std::string> candidates);

}  // namespace topograd::command
