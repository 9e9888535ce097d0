// Options of the command for an expression and its names.
#pragma once

#include "arguments.hpp"

#include "../../../api/expression/expression.hpp"

#include <string>

namespace topograd::command {

/// An expression as given on the command line.
struct ExpressionArguments {
  std::string text;
  ExpressionNames names;

  bool any() const {
    return !text.empty() || !names.parameters.empty() || !names.data.empty() ||
           !names.uniforms.empty();
  }
};

/// Adds --expr, --params, --data and --uniforms; returns --expr.
inline Option add_expression_options(Command app, ExpressionArguments& a) {
  app.option("--params", &a.names.parameters, "names of parameters, separated by commas")
      .delimiter(',');
  app.option("--data", &a.names.data, "names of numbers of an instance").delimiter(',');
  app.option("--uniforms", &a.names.uniforms, "names of numbers shared by instances")
      .delimiter(',');
  return app.option("--expr", &a.text, "residual, rows separated by ';'");
}

/// parse() with the position of an error in one line. Throws what parse() throws.
ir::Program parse_expression(const ExpressionArguments& arguments);

}  // namespace topograd::command
