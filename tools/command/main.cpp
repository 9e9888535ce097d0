// The command line and its exit status.
#include "command/commands.hpp"
#include "command/info.hpp"
#include "command/model.hpp"

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
  CLI::App app("Nonlinear least squares in compute shaders that are compiled from scalar C++.",
               "topograd");
  app.require_subcommand(1);
  app.failure_message(
      [](const CLI::App*, const CLI::Error& error) { return std::string(error.what()); });
  add_info(app);
  add_doctor(app);
  add_solve(app);
  add_dump(app);
  add_grad(app);
  add_bench(app);
  add_check(app);
  add_model(app);
  try {
    app.parse(argc, argv);
    const std::string messages = validation_report();
    return messages.empty() ? 0 : fail("validation: " + messages);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(error.what());
  } catch (const BoundBroken&) {
    return 1;
  } catch (const Error& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace topograd::command
