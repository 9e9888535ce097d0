// Parses expressions from the command line.
#include "expression_arguments.hpp"

#include "../../../ir/error.hpp"

namespace topograd::command {

ir::Program parse_expression(const ExpressionArguments& arguments) {
  try {
    return parse(arguments.text, arguments.names);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(error.code(), message.substr(0, message.find('\n')));
  }
}

}  // namespace topograd::command
