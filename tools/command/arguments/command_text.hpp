// The commands and options as plain data, and the texts that are made of it: help, manual page,
// completion.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// One option or positional argument.
struct OptionText {
  std::string name;           ///< with its dashes; a positional argument has none
  std::string value;          ///< what stands for its value, such as FILE; empty for a flag
  std::string default_value;  ///< empty: none, or the description says it
  std::string description;
  std::string group;                   ///< heading that it is listed under
  std::vector<std::string> choices;    ///< the values that it takes; empty: any
  std::vector<std::string> only_with;  ///< problems that it applies to; empty: all
  bool required = false;

  bool positional() const { return !name.starts_with('-'); }
};

/// One command with its options and subcommands.
struct CommandText {
  std::string name;  ///< as it is typed, with the names of the commands around it
  std::string description;
  std::vector<std::string> examples;  ///< complete command lines
  std::vector<OptionText> options;
  std::vector<CommandText> subcommands;
};

/// What --help prints, at most 100 columns wide.
///
///   problem  only options that apply to this problem are listed; empty: all, with their problems
std::string help_text(const CommandText& command, const std::string& problem = {});

/// The page for `man`, in the language of man(7).
std::string manual_page(const CommandText& root, const std::string& version);

/// The options of each command as tables of the manual, in Markdown.
std::string manual_tables(const CommandText& root);

/// Scripts that complete commands, options and their values.
std::string bash_completion(const CommandText& root);
std::string zsh_completion(const CommandText& root);

/// The one of `candidates` that `word` was probably meant to be: at most a third of its letters
/// differ. Empty if there is none.
std::string closest(const std::string& word, std::span<const std::string> candidates);

/// `; did you mean "name"?`, or nothing.
std::string did_you_mean(const std::string& word, std::span<const std::string> candidates);

}  // namespace topograd::command
