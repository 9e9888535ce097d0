// The command line through CLI11, whose headers take seconds to compile: no other file has them.
#include "command/arguments.hpp"

#include "command/output.hpp"

#include <topograd/ir/error.hpp>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

/// CLI11 reads -1 as the largest unsigned number of 64 bits.
std::string without_sign(const std::string& text) {
  return text.starts_with('-') ? "expected a number >= 0, got " + text : "";
}

/// What is said where a subcommand is missing: those that there are, and what stands in its place.
std::string missing_subcommand(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::string names;
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  const std::vector<std::string> rest = root.remaining(true);
  return "expected one of the commands " + names +
         (rest.empty() ? ", got none" : ", got \"" + rest.front() + "\"");
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
  option_->check(CLI::Range(low, high));
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& description) {
  return Command(*app_->add_subcommand(name, description));
}

void Command::require_subcommand() { app_->require_subcommand(1); }

Option Command::option(const std::string& name, OptionTarget target,
                       const std::string& description) {
  const auto add = [&]<class T>(T* value) {
    CLI::Option* option = app_->add_option(name, *value, description);
    if (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::optional<std::uint64_t>>)
      option->check(without_sign);
    return Option(*option);
  };
  return std::visit(add, target);
}

Option Command::output(const std::string& name, std::string* target,
                       const std::string& description) {
  CLI::Option* option = app_->add_option(name, *target, description);
  option->check([](const std::string& path) {
    check_writable(path);
    return std::string();
  });
  return Option(*option);
}

void Command::flag(const std::string& name, bool& target, const std::string& description) {
  app_->add_flag(name, target, description);
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
    : app_(std::make_unique<CLI::App>(description, name)) {}

CommandLine::~CommandLine() = default;

bool CommandLine::run(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return true;
  } catch (const CLI::Success& help) {
    app_->exit(help);
    return false;
  } catch (const CLI::RequiredError& error) {
    const bool subcommand = std::string(error.what()) == CLI::RequiredError::Subcommand(1).what();
    throw Error(ErrorCode::InvalidArgument,
                subcommand ? missing_subcommand(*app_) : std::string(error.what()));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::InvalidArgument, error.what());
  }
}

}  // namespace topograd::command
