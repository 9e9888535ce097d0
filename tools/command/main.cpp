// The command line and its exit status.
#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "info.hpp"

#include "../../api/version.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"

#include <csignal>
#include <iostream>
#include <new>
#include <string>

namespace topograd::command {
namespace {

int print_error(std::string message) {
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  std::cerr << "topograd: " << message << std::endl;
  return 2;
}

/// `man` and `completion`: texts generated from the commands.
void add_texts(CommandLine& line) {
  Command command = line.command();
  command.subcommand("man", "Prints the manual page, for man -l -").callback([&line] {
    std::cout << manual_page(line.text(), std::string(version()));
  });
  Command completion = command.subcommand("completion", "Prints a script that completes commands");
  completion.require_subcommand();
  completion.example("source <(topograd completion bash)");
  completion.subcommand("bash", "For bash").callback([&line] {
    std::cout << bash_completion(line.text());
  });
  completion.subcommand("zsh", "For zsh").callback([&line] {
    std::cout << zsh_completion(line.text());
  });
}

/// Every command, with its options and callbacks.
void add_commands(CommandLine& line) {
  Command command = line.command();
  command.require_subcommand();
  add_info(command);
  add_doctor(command);
  add_demo(command);
  add_solve(command);
  add_view(command);
  add_dump(command);
  add_export(command);
  add_grad(command);
  add_bench(command);
  add_check(command);
  add_model(command);
  add_warm_up(command);
  add_texts(line);
  command.version("topograd " + std::string(version()));
  command.example("topograd doctor");
  command.example("topograd demo");
  command.example("topograd solve arap --mesh samples/data/spot.obj --out deformed.obj");
  command.example("topograd view arap --mesh samples/data/spot.obj --open");
  command.example("topograd dump springs --kernel gradient");
  command.example("topograd solve springs --help     options of one problem alone");
}

constexpr const char* kName = "topograd";
constexpr const char* kDescription =
    "Nonlinear least squares in compute shaders that are compiled from scalar C++.";

}  // namespace

CommandText command_text() {
  CommandLine line(kName, kDescription);
  add_commands(line);
  return line.text();
}

std::string first_words() {
  return R"(Topograd solves nonlinear least squares on the CPU and on any Vulkan GPU. Try:
  topograd doctor                                        # what this machine has for it
  topograd demo                                          # deforms a mesh, and draws it
  topograd view arap --icosphere 3 --open                # a sphere to pull at in the browser
  topograd dump springs --kernel gradient                # the shader that a residual becomes
  topograd --help                                        # all commands, each with --help
)";
}

int run(int argc, const char* const* argv, const std::function<int(const std::string&)>& tell) {
  const auto fail = [&](const std::string& reason) {
    return tell ? tell(reason) : print_error(reason);
  };
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` becomes a failed write
  platform::keep_freed_memory();
  const TerminalGuard guard;
  if (argc <= 1) {
    std::cout << first_words();
    flush_standard_output();
    return 0;
  }
  CommandLine line(kName, kDescription);
  add_commands(line);
  try {
    const bool ran = line.run(argc, argv);
    flush_standard_output();
    if (!ran) return 0;
    const std::string messages = validation_report();
    return messages.empty() ? 0 : fail("validation: " + messages);
  } catch (const BoundBroken&) {
    return 1;
  } catch (const Interrupted& end) {
    constexpr int kOfSignals = 128;
    return kOfSignals + end.signal;
  } catch (const Error& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace topograd::command
