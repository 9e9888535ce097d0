// The command line with CLI11, whose headers take seconds to compile: no other file includes them.
#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "command_text.hpp"
#include "output.hpp"

namespace topograd::command {

/// Facts about options and commands that CLI11 does not store.
struct CommandFacts {
  struct Facts {
    bool output = false;
    std::function<std::string(const std::string&)> companion;
    std::string value;
    std::vector<std::string> choices, only_with, folder_with;
  };
  std::map<const CLI::Option*, Facts> options;
  std::map<const CLI::App*, std::vector<std::string>> examples;
};

namespace {

template <class T>
inline constexpr const char* kValueName = std::is_floating_point_v<T> ? "X"
                                          : std::is_integral_v<T>     ? "N"
                                                                      : "NAME";
template <class T>
inline constexpr const char* kValueName<std::optional<T>> = kValueName<T>;
template <class T>
inline constexpr const char* kValueName<std::vector<T>> = kValueName<T>;

/// The innermost command that was given.
const CLI::App& named(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

/// The first positional argument that was given; empty if there is none.
std::string first_argument(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && option->count() > 0) return option->results().front();
  }
  return "";
}

CommandText text_of(const CLI::App& app, const std::string& before, const CommandFacts& facts) {
  CommandText text{.name = before + app.get_name(), .description = app.get_description()};
  if (const auto found = facts.examples.find(&app); found != facts.examples.end())
    text.examples = found->second;
  for (const CLI::Option* option : app.get_options()) {
    OptionText row{.name = option->get_positional() ? option->get_name(true) : option->get_name(),
                   .default_value = option->get_default_str(),
                   .description = option->get_description(),
                   .group = option->get_positional() ? "Arguments" : option->get_group(),
                   .required = option->get_required()};
    if (option == app.get_help_ptr()) row.name = "--help";
    if (const auto found = facts.options.find(option); found != facts.options.end()) {
      row.value = found->second.value;
      row.choices = found->second.choices;
      row.only_with = found->second.only_with;
    }
    text.options.push_back(std::move(row));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    text.subcommands.push_back(text_of(*sub, text.name + " ", facts));
  return text;
}

/// The text of the innermost command that was given.
CommandText named_text(const CLI::App& root, const CommandFacts& facts) {
  std::string before;
  const CLI::App* app = &named(root);
  for (const CLI::App* parent = app->get_parent(); parent != nullptr; parent = parent->get_parent())
    before = parent->get_name() + " " + before;
  return text_of(*app, before, facts);
}

/// Throws Error{InvalidArgument} for an option that does not apply to the given problem.
void check_problems(const CLI::App& app, const CommandFacts& facts) {
  const std::string problem = first_argument(app);
  for (const auto& [option, fact] : facts.options) {
    if (fact.only_with.empty() || option->count() == 0 || problem.empty()) continue;
    const auto options = app.get_options();
    if (std::ranges::find(options, option) == options.end()) continue;
    if (std::ranges::find(fact.only_with, problem) != fact.only_with.end()) continue;
    std::string names;
    for (const std::string& name : fact.only_with) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::InvalidArgument, problem + ": expected " + option->get_name() +
                                                " with " + names + " alone, got it with " +
                                                problem);
  }
}

/// The unexpected argument, and the name that was probably meant.
std::string unexpected(const CLI::App& root, const CommandFacts& facts) {
  const std::vector<std::string> rest = root.remaining(true);
  if (rest.empty()) return "expected other arguments";
  const std::string& word = rest.front();
  const CommandText command = named_text(root, facts);
  std::vector<std::string> names;
  for (const OptionText& option : command.options) names.push_back(option.name);
  for (const CommandText& sub : command.subcommands)
    names.push_back(sub.name.substr(command.name.size() + 1));
  return command.name + ": expected an option of `" + command.name + " --help`, got \"" + word +
         "\"" + did_you_mean(word, names);
}

/// The error in the text of a number; empty if there is none. CLI11 would read -1 as the largest
/// unsigned number, and does not say what it expected.
template <class T>
std::string refuse_number(const std::string& text) {
  if constexpr (std::is_unsigned_v<T>) {
    if (text.starts_with('-')) return "expected a number >= 0, got " + text;
  }
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data() + text.starts_with('+'), end, number);
  if (code == std::errc() && rest == end) return "";
  if (code == std::errc::result_out_of_range && std::is_integral_v<T>)
    return "expected a number of at most " + std::to_string(std::numeric_limits<T>::max()) +
           ", got " + text;
  return std::string(std::is_integral_v<T> ? "expected a whole number, got "
                                           : "expected a number, got ") +
         text;
}
template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using Type = T;
};
template <class T>
struct NumberOf<std::vector<T>> {
  using Type = T;
};

/// Throws Error{File} for a file, for a folder that cannot be made, and for one in which no file
/// can be made. Folders that it makes are removed again.
void check_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed, ignored;
  if (fs::exists(path, failed) && !fs::is_directory(path, failed))
    throw Error(ErrorCode::File, path + ": expected a folder, got a file");
  std::vector<fs::path> missing;
  for (fs::path at = path; !at.empty() && !fs::exists(at, ignored); at = at.parent_path())
    missing.push_back(at);
  fs::create_directories(path, failed);
  const bool writable = !failed && platform::can_write_output((fs::path(path) / "file").string());
  for (const fs::path& made : missing) fs::remove(made, ignored);
  if (failed) throw Error(ErrorCode::File, path + ": cannot be made: " + failed.message());
  if (!writable) throw Error(ErrorCode::File, path + ": no file can be written in this folder");
}

/// Throws Error{File} for an output that is not writable, but for those whose folder is made with
/// them.
///
///   beside_folders  paths of outputs that are made with the folders that hold them
void check_all_writable(const std::vector<OutputFile>& outputs,
                        const std::vector<std::string>& beside_folders) {
  for (const OutputFile& output : outputs) {
    std::error_code failed;
    const std::filesystem::path holder = std::filesystem::path(output.path).parent_path();
    const bool made_later = std::ranges::find(beside_folders, output.path) != beside_folders.end();
    if (!made_later || holder.empty() || std::filesystem::exists(holder, failed))
      check_writable(output.path);
  }
}

/// Declares the outputs, and compares them with the files that the command names to read. Throws
/// Error{InvalidArgument} if one would overwrite another or such a file, then Error{File} if one is
/// not writable.
void check_outputs(const CLI::App& app, const CommandFacts& facts) {
  std::vector<OutputFile> outputs;
  std::vector<std::string> beside_folders;  // which are made with the folders that hold them
  const std::string problem = first_argument(app);
  const auto output_of = [&](const CLI::Option* option) {
    const auto found = facts.options.find(option);
    return found != facts.options.end() && found->second.output ? &found->second : nullptr;
  };
  for (const CLI::Option* option : app.get_options()) {
    const CommandFacts::Facts* output = output_of(option);
    if (output == nullptr || option->count() == 0) continue;
    const std::string& path = option->results().front();
    const bool is_folder =
        std::ranges::find(output->folder_with, problem) != output->folder_with.end();
    if (is_folder) {
      check_folder(path);
    } else {
      outputs.push_back({option->get_name(), path});
    }
    if (!output->companion) continue;
    outputs.push_back({option->get_name(), output->companion(path)});
    if (is_folder) beside_folders.push_back(outputs.back().path);
  }
  declare_outputs(outputs);
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || output_of(option) != nullptr) continue;
    std::error_code failed;
    for (const std::string& value : option->results())
      if (std::filesystem::is_regular_file(value, failed)) input_file(value);
  }
  check_all_writable(outputs, beside_folders);
}

/// The message for a missing subcommand: the existing ones, and the argument in its place.
std::string missing_subcommand(const CLI::App& root) {
  std::string all;
  std::vector<std::string> names;
  for (const CLI::App* command :
       named(root).get_subcommands([](const CLI::App*) { return true; })) {
    all += (all.empty() ? "" : ", ") + command->get_name();
    names.push_back(command->get_name());
  }
  const std::vector<std::string> rest = root.remaining(true);
  return "expected one of the commands " + all +
         (rest.empty() ? ", got none"
                       : ", got \"" + rest.front() + "\"" + did_you_mean(rest.front(), names));
}

}  // namespace

Option& Option::required(bool required) {
  option_->required(required);
  return *this;
}

Option& Option::delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

Option& Option::range(int low, int high) {
  option_->check([low, high](const std::string& text) {
    if (std::string refused = refuse_number<int>(text); !refused.empty()) return refused;
    const int number = std::stoi(text);
    return number >= low && number <= high ? ""
                                           : "expected a number in " + std::to_string(low) +
                                                 " .. " + std::to_string(high) + ", got " + text;
  });
  return *this;
}

Option& Option::shown_default(const std::string& value) {
  option_->default_str(value);
  return *this;
}

Option& Option::choices(std::vector<std::string> values) {
  facts_->options[option_].choices = std::move(values);
  return *this;
}

Option& Option::folder_with(std::vector<std::string> problems) {
  facts_->options[option_].folder_with = std::move(problems);
  return *this;
}

Option& Option::writes_also(std::function<std::string(const std::string&)> companion) {
  facts_->options[option_].companion = std::move(companion);
  return *this;
}

Option& Option::only_with(std::vector<std::string> problems) {
  facts_->options[option_].only_with = std::move(problems);
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& description) {
  CLI::App* sub = app_->add_subcommand(name, description);
  sub->set_help_flag("--help,-h", "print this help");
  return Command(*sub, *facts_);
}

void Command::group(const std::string& title) { app_->option_defaults()->group(title); }

void Command::example(const std::string& line) { facts_->examples[app_].push_back(line); }

void Command::version(const std::string& text) {
  app_->set_version_flag("--version", text)->description("print the version and what was built in");
}

void Command::require_subcommand() { app_->require_subcommand(1); }

Option Command::option(const std::string& name, OptionTarget target,
                       const std::string& description) {
  const auto add = [&]<class T>(T* value) {
    CLI::Option* option = app_->add_option(name, *value, description);
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
      option->capture_default_str();
    facts_->options[option].value = kValueName<T>;
    using Number = typename NumberOf<T>::Type;
    if constexpr (std::is_arithmetic_v<Number>) option->check(refuse_number<Number>);
    return Option(*option, *facts_);
  };
  return std::visit(add, target);
}

Option Command::output(const std::string& name, std::string* target,
                       const std::string& description) {
  CLI::Option* option = app_->add_option(name, *target, description);
  facts_->options[option].output = true;
  option->check([](const std::string& path) {
    return std::string(path.empty() ? "expected the name of a file, got none" : "");
  });
  facts_->options[option].value = "FILE";
  return Option(*option, *facts_);
}

Option Command::flag(const std::string& name, bool& target, const std::string& description) {
  return Option(*app_->add_flag(name, target, description), *facts_);
}

void Command::callback(std::function<void()> run) { app_->callback(std::move(run)); }

bool Command::given(const std::string& option) const { return app_->count(option) > 0; }

std::string Command::line() const {
  std::string line = app_->get_name();
  for (const CLI::App* parent = app_->get_parent(); parent != nullptr;
       parent = parent->get_parent())
    line = parent->get_name() + " " + line;
  const CLI::App& app = *app_;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    if (!option->get_positional()) line += " " + option->get_name();
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& value : option->results()) line += " " + value;
  }
  return line;
}

CommandLine::CommandLine(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)),
      facts_(std::make_unique<CommandFacts>()) {
  app_->set_help_flag("--help,-h", "print this help");
}

CommandLine::~CommandLine() = default;

CommandText CommandLine::text() const { return text_of(*app_, "", *facts_); }

bool CommandLine::run(int argc, const char* const* argv) {
  app_->parse_complete_callback([this] {
    check_problems(named(*app_), *facts_);
    check_outputs(named(*app_), *facts_);
  });
  try {
    app_->parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(named_text(*app_, *facts_), first_argument(named(*app_)));
    return false;
  } catch (const CLI::Success& help) {
    app_->exit(help);
    return false;
  } catch (const CLI::RequiredError& error) {
    const bool subcommand = std::string(error.what()) == CLI::RequiredError::Subcommand(1).what();
    throw Error(ErrorCode::InvalidArgument,
                subcommand ? missing_subcommand(*app_) : std::string(error.what()));
  } catch (const CLI::ExtrasError&) {
    throw Error(ErrorCode::InvalidArgument, unexpected(*app_, *facts_));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::InvalidArgument, error.what());
  }
}

namespace {

/// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
/// Source: the restricted edit distance of Damerau (1964), by dynamic programming over three rows.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string closest(const std::string& word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t least = word.size() / 3 + 1;  // with more differences it is another word
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least || (distance == least && best.empty() && distance < candidate.size())) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, std::span<const std::string> candidates) {
  const std::string name = closest(word, candidates);
  return name.empty() ? "" : "; did you mean \"" + name + "\"?";
}

}  // namespace topograd::command
