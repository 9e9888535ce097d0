// topograd grad: the derivatives of an expression as formulas, and their values at a point.
#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "arguments/shared_arguments.hpp"

#include "../../api/readable.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/text.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

struct GradArguments {
  ExpressionArguments expression;
  std::vector<double> at;
  bool as_computed = false;
  std::string json;
};

/// Names of the outputs of residual_and_jacobian: f, df/da, ...; f1, f2, df1/da, ...
std::vector<std::string> output_names(std::size_t rows,
                                      const std::vector<std::string>& parameters) {
  std::vector<std::string> names;
  const auto row_name = [&](std::size_t row) {
    return rows == 1 ? std::string("f") : "f" + std::to_string(row + 1);
  };
  for (std::size_t row = 0; row < rows; ++row) names.push_back(row_name(row));
  for (std::size_t row = 0; row < rows; ++row) {
    for (const std::string& parameter : parameters)
      names.push_back("d" + row_name(row) + "/d" + parameter);
  }
  return names;
}

/// The residual as given, then the common sub-expressions of its derivatives, then the derivatives.
std::string formulas_text(const ir::Program& f, const ExpressionNames& names,
                          const std::vector<std::string>& outputs, bool as_computed) {
  std::string text;
  const auto write = [&](const Formulas& lines, std::size_t first) {
    for (const auto& [name, formula] : lines.definitions) text += name + " = " + formula + "\n";
    for (std::size_t k = 0; k < lines.outputs.size(); ++k)
      text += outputs[first + k] + " = " + lines.outputs[k] + "\n";
    text += "\n";
  };
  const Formulas residual = formulas(f, names);
  write(residual, 0);
  const ir::Program jacobian = autodiff::jacobian(f, autodiff::all_slots(f));
  write(
      formulas(as_computed ? jacobian : readable(jacobian), names, residual.definitions.size() + 1),
      f.outputs.size());
  text.pop_back();
  return text;
}

/// Values of the rows, then of the derivatives.
std::vector<double> values_at(const ir::Program& f, std::span<const double> at) {
  const std::size_t p = f.leaves.parameters, d = f.leaves.data, u = f.leaves.uniforms;
  if (at.size() != p + d + u) {
    throw Error(ErrorCode::Shape, "grad: expected --at with " + std::to_string(p + d + u) +
                                      " numbers (parameters, data, uniforms), got " +
                                      std::to_string(at.size()));
  }
  const ir::Inputs<double> inputs = {
      .parameters = at.first(p), .data = at.subspan(p, d), .uniforms = at.subspan(p + d)};
  std::vector<double> values = ir::evaluate(f, inputs);
  const std::vector<double> derivatives =
      ir::evaluate(autodiff::jacobian(f, autodiff::all_slots(f)), inputs);
  values.insert(values.end(), derivatives.begin(), derivatives.end());
  return values;
}

void grad(const GradArguments& arguments) {
  const ExpressionNames& names = arguments.expression.names;
  if (names.parameters.empty())
    throw Error(ErrorCode::NoParameters, "grad: expected --params with at least one name");
  const ir::Program f = parse_expression(arguments.expression);
  const std::vector<std::string> outputs = output_names(f.outputs.size(), names.parameters);
  nlohmann::ordered_json report;
  std::string text = formulas_text(f, names, outputs, arguments.as_computed);
  report["formulas"] = text;
  if (!arguments.at.empty()) {
    const std::vector<double> values = values_at(f, arguments.at);
    text += "\n";
    std::size_t k = 0;
    for (const auto* list : {&names.parameters, &names.data, &names.uniforms}) {
      for (const std::string& name : *list)
        text += (k == 0 ? "at " : ", ") + name + " = " + ir::print_number(arguments.at[k]), ++k;
    }
    text += "\n";
    for (std::size_t output = 0; output < values.size(); ++output) {
      text += outputs[output] + " = " + ir::print_number(values[output]) + "\n";
      report["values"][outputs[output]] = values[output];
    }
  }
  Outputs files;
  files.attempt([&] { write_json(arguments.json, report); });
  if (arguments.json != "-") files.write("-", [&] { return text; });
  files.finish();
}

}  // namespace

void add_grad(Command app) {
  auto arguments = std::make_shared<GradArguments>();
  Command command = app.subcommand("grad", "Prints the derivatives of an expression");
  add_expression_options(command, arguments->expression).required();
  command
      .option("--at", &arguments->at,
              "numbers for parameters, data and uniforms, in this order, separated by commas")
      .delimiter(',');
  command.flag("--as-computed", arguments->as_computed,
               "formulas of what kernels compute, not simplified for reading");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback([arguments] { grad(*arguments); });
}

}  // namespace topograd::command
