// Pages that are written from the options: the manual page, and the manual's tables.
#include "command_text.hpp"

namespace topograd::command {
namespace {

/// Escapes text for roff: no line begins with a control character, and dashes stay dashes.
std::string roff(const std::string& text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') out += '\\';
    if (c == '-') out += '\\';
    out += c;
    if (c == '\\') out.back() = 'e';
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

std::string entry(const OptionText& option) {
  std::string text = ".TP\n\\fB" + roff(option.name) + "\\fR";
  if (!option.value.empty() && !option.positional()) text += " \\fI" + roff(option.value) + "\\fR";
  text += '\n' + roff(option.description);
  if (!option.choices.empty()) text += ": " + roff(joined(option.choices));
  text += ".";
  if (!option.default_value.empty()) text += " Default: " + roff(option.default_value) + ".";
  if (!option.only_with.empty()) text += " Problems: " + roff(joined(option.only_with)) + ".";
  return text + '\n';
}

std::string section(const CommandText& command) {
  std::string text = ".SS " + roff(command.name) + '\n' + roff(command.description) + ".\n";
  for (const OptionText& option : command.options)
    if (option.name != "--help") text += entry(option);
  for (const std::string& example : command.examples)
    text += ".PP\n.EX\n" + roff(example) + "\n.EE\n";
  for (const CommandText& sub : command.subcommands) text += section(sub);
  return text;
}

constexpr const char* kAfter = R"(.SH EXIT STATUS
.TP
0
The command did its work. A solve that reached a limit before it converged counts as done.
.TP
1
A bound was broken: of a self\-test, or by \fB\-\-require\-convergence\fR.
.TP
2
An error, with one line on standard error.
.TP
130, 143
Interrupted by SIGINT or SIGTERM; outputs have been written.
.SH ENVIRONMENT
)";

struct Variable {
  const char *name, *meaning;
};
constexpr Variable kVariables[] = {
#define TG_VARIABLE(name, meaning) {#name, meaning},
#include "../../../ir/machine/environment.def"
};

std::string without_backticks(std::string text) {
  std::erase(text, '`');
  return text;
}

std::string environment_section() {
  std::string text;
  for (const Variable& one : kVariables)
    text += ".TP\n.B " + roff(one.name) + '\n' + roff(without_backticks(one.meaning)) + ".\n";
  return text;
}

}  // namespace

std::string manual_page(const CommandText& root, const std::string& version) {
  std::string text = ".TH TOPOGRAD 1 \"\" \"topograd " + version + "\" \"User Commands\"\n";
  text += ".SH NAME\ntopograd \\- " + roff(root.description) + '\n';
  text += ".SH SYNOPSIS\n.B topograd\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH OPTIONS\n";
  for (const OptionText& option : root.options) text += entry(option);
  text += ".SH COMMANDS\n";
  for (const CommandText& sub : root.subcommands) text += section(sub);
  return text + kAfter + environment_section();
}

namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string joined_code(const std::vector<std::string>& words) {
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
  if (!option.choices.empty()) text += ": " + joined_code(option.choices);
  if (!option.default_value.empty()) text += " (" + code(option.default_value) + ")";
  if (!option.only_with.empty()) text += "; for " + joined_code(option.only_with);
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
