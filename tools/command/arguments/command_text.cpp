// Help, the manual page, the manual's tables and completion, all written from the options.
#include "command_text.hpp"

#include <algorithm>

namespace topograd::command {
namespace {

/// A pattern of a shell's `case`: the words of a command, without the program's name.
std::string words_after_program(const std::string& name) {
  const std::size_t space = name.find(' ');
  return space == name.npos ? "" : name.substr(space + 1);
}

/// Possible continuations of a command: its subcommands, options, and values of its problem.
std::string candidates(const CommandText& command) {
  std::string all;
  for (const CommandText& sub : command.subcommands)
    all += sub.name.substr(command.name.size() + 1) + ' ';
  for (const OptionText& option : command.options) {
    if (!option.positional()) all += option.name + ' ';
    if (option.positional())
      for (const std::string& choice : option.choices) all += choice + ' ';
  }
  return all;
}

void add_commands(const CommandText& command, std::string& cases) {
  cases += "    '" + words_after_program(command.name) + "') following='" + candidates(command) +
           "' ;;\n";
  for (const CommandText& sub : command.subcommands) add_commands(sub, cases);
}

/// Adds the values of options, once for each command and option with a list of values.
void add_values(const CommandText& command, std::string& cases) {
  for (const OptionText& option : command.options) {
    if (option.positional() || option.choices.empty()) continue;
    cases += "    '" + words_after_program(command.name) + ' ' + option.name + "') values='";
    for (const std::string& choice : option.choices) cases += choice + ' ';
    cases += "' ;;\n";
  }
  for (const CommandText& sub : command.subcommands) add_values(sub, cases);
}

/// Adds the names of all subcommands at any depth.
void add_names(const CommandText& command, std::string& names) {
  for (const CommandText& sub : command.subcommands) {
    names += '\'' + words_after_program(sub.name) + "'|";
    add_names(sub, names);
  }
}

/// The common part of both shells: sets `following` and `values` from the array `typed`.
std::string lookup(const CommandText& root) {
  std::string commands, values, names;
  add_commands(root, commands);
  add_values(root, values);
  add_names(root, names);
  names.pop_back();
  return "  local command='' values='' word following=''\n"
         "  for word in \"${typed[@]}\"; do\n"
         "    case \"${command:+$command }$word\" in\n      " +
         names +
         ") command=\"${command:+$command }$word\" ;;\n"
         "    esac\n  done\n"
         "  case \"$command\" in\n" +
         commands + "  esac\n  case \"$command $previous\" in\n" + values + "  esac\n";
}

constexpr std::size_t kWidth = 100, kColumn = 30;

std::string joined(const std::vector<std::string>& words, const char* separator = ", ") {
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

std::string help_row(const OptionText& option, bool with_problems) {
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

std::string bash_completion(const CommandText& root) {
  return "# Completion of topograd for bash.\n_topograd() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local typed=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n" +
         lookup(root) +
         "  COMPREPLY=($(compgen -W \"${values:-$following}\" -- \"$current\"))\n"
         "  [[ -n $values || $current == -* || ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY+=($(compgen "
         "-f -- \"$current\"))\n}\n"
         "complete -o filenames -F _topograd topograd\n";
}

std::string zsh_completion(const CommandText& root) {
  return "#compdef topograd\n# Completion of topograd for zsh.\n_topograd() {\n"
         "  local previous=${words[CURRENT-1]}\n"
         "  local -a typed=(${words[2,CURRENT-1]})\n" +
         lookup(root) +
         "  if [[ -n $values ]]; then\n    compadd -- ${=values}\n  else\n"
         "    compadd -- ${=following}\n    _files\n  fi\n}\n"
         "compdef _topograd topograd\n";
}

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
      if (option.group == group && applies(option, problem))
        rows += help_row(option, problem.empty());
    }
    if (!rows.empty()) text += '\n' + group + ":\n" + rows;
  }
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : command.examples) text += "  " + example + '\n';
  return text;
}

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

std::string page_row(const OptionText& option) {
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
    page += page_row(option);
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
