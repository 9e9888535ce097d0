// Completion of the command line for bash and zsh.
#include "command_text.hpp"

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

}  // namespace topograd::command
