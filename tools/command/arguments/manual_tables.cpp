// The page of the manual that lists all options.
#include "command_text.hpp"

namespace topograd::command {
namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + code(word);
  return all;
}

/// A cell of a table, with bars escaped.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string row(const OptionText& option) {
  std::string head = option.name;
  if (!option.value.empty() && !option.positional()) head += ' ' + option.value;
  std::string text = option.description;
  if (!option.choices.empty()) text += ": " + joined(option.choices);
  if (!option.default_value.empty()) text += " (" + code(option.default_value) + ")";
  if (!option.only_with.empty()) text += "; for " + joined(option.only_with);
  return "| " + code(cell(head)) + " | " + cell(text) + " |\n";
}

void add_command(const CommandText& command, std::string& page) {
  page += "\n## " + command.name + "\n\n" + command.description + ".\n";
  std::string group;
  for (const OptionText& option : command.options) {
    if (option.name.starts_with("--help")) continue;
    if (group != option.group || page.ends_with(".\n")) {
      group = option.group;
      page += "\n| " + group + " | |\n|---|---|\n";
    }
    page += row(option);
  }
  if (!command.examples.empty()) page += "\n```sh\n";
  for (const std::string& example : command.examples) page += example + '\n';
  if (!command.examples.empty()) page += "```\n";
  for (const CommandText& sub : command.subcommands) add_command(sub, page);
}

}  // namespace

std::string manual_tables(const CommandText& root) {
  std::string page;
  for (const CommandText& sub : root.subcommands) add_command(sub, page);
  return page;
}

}  // namespace topograd::command
