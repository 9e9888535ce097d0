// The output of --help.
#include "command_text.hpp"

#include <algorithm>

namespace topograd::command {
namespace {

constexpr std::size_t kWidth = 100, kColumn = 30;

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : separator) + word;
  return all;
}

/// Wraps `text` into lines from `column`; the first continues a line with `used` characters.
std::string wrapped(const std::string& text, std::size_t column, std::size_t used) {
  std::string out;
  if (used + 1 > column) {
    out = "\n";
    used = 0;
  }
  out.append(column - used, ' ');
  std::size_t at = column;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (at > column && at + 1 + end - begin > kWidth) {
      out += '\n' + std::string(column, ' ');
      at = column;
    } else if (at > column) {
      out += ' ';
      ++at;
    }
    out += text.substr(begin, end - begin);
    at += end - begin;
    begin = end + 1;
  }
  return out + '\n';
}

std::string row(const OptionText& option, bool with_problems) {
  std::string head = "  " + option.name;
  if (!option.value.empty() && !option.positional()) head += ' ' + option.value;
  std::string text = option.description;
  if (!option.choices.empty()) text += ": " + joined(option.choices, ", ");
  if (!option.default_value.empty()) text += " [" + option.default_value + "]";
  if (with_problems && !option.only_with.empty())
    text += " (" + joined(option.only_with, ", ") + ")";
  return head + wrapped(text, kColumn, head.size());
}

bool applies(const OptionText& option, const std::string& problem) {
  return problem.empty() || option.only_with.empty() ||
         std::ranges::find(option.only_with, problem) != option.only_with.end();
}

std::vector<std::string> groups_of(const CommandText& command) {
  std::vector<std::string> groups;
  for (const OptionText& option : command.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  return groups;
}

std::string usage(const CommandText& command) {
  std::string line = "Usage: " + command.name;
  if (!command.subcommands.empty()) line += " COMMAND";
  for (const OptionText& option : command.options) {
    if (option.positional()) line += option.required ? ' ' + option.name : " [" + option.name + "]";
  }
  return line + " [OPTIONS]\n";
}

}  // namespace

std::string help_text(const CommandText& command, const std::string& problem) {
  std::string text = command.description + "\n\n" + usage(command);
  if (!command.subcommands.empty()) text += "\nCommands:\n";
  for (const CommandText& sub : command.subcommands) {
    const std::string head = "  " + sub.name.substr(command.name.size() + 1);
    text += head + wrapped(sub.description, kColumn, head.size());
  }
  for (const std::string& group : groups_of(command)) {
    std::string rows;
    for (const OptionText& option : command.options) {
      if (option.group == group && applies(option, problem)) rows += row(option, problem.empty());
    }
    if (!rows.empty()) text += '\n' + group + ":\n" + rows;
  }
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : command.examples) text += "  " + example + '\n';
  return text;
}

}  // namespace topograd::command
