// The command line and its exit status.
#include "command/commands.hpp"
#include "command/info.hpp"
#include "command/model.hpp"
#include "command/warm_up.hpp"

#include <topograd/ir/error.hpp>

#include <iostream>
#include <new>
#include <string>

namespace topograd::command {
namespace {

int fail(std::string message) {
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  std::cerr << "topograd: " << message << std::endl;
  return 2;
}

}  // namespace

int run(int argc, const char* const* argv) {
  CommandLine line("topograd",
                   "Nonlinear least squares in compute shaders that are compiled from scalar C++.");
  Command command = line.command();
  command.require_subcommand();
  add_info(command);
  add_doctor(command);
  add_solve(command);
  add_dump(command);
  add_grad(command);
  add_bench(command);
  add_check(command);
  add_model(command);
  add_warm_up(command);
  try {
    if (!line.run(argc, argv)) return 0;
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
