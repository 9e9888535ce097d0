// Finding the residual, the op and the operands behind a NaN or an infinity.
#include <topograd/solver/nonfinite.hpp>

#include <topograd/autodiff/second_order.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/ir/evaluate.hpp>
#include <topograd/solver/host/host_terms.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

namespace topograd {
namespace {

struct InstancePlace {
  std::size_t term = 0;
  std::size_t instance = 0;
};

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return std::isnan(value) ? "nan" : text;
}

bool is_constant(const runtime::Model& model, std::uint32_t scalar) {
  return !model.constant.empty() && model.constant[scalar] != 0;
}

std::optional<std::size_t> first_nonfinite(std::span<const double> values) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  if (found == values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - values.begin());
}

/// "parameter array 0, block 17, coordinate 2"
std::string describe_scalar(const runtime::Model& model, std::uint64_t scalar) {
  for (std::size_t a = 0; a < model.arrays.size(); ++a) {
    const runtime::ParameterArray& array = model.arrays[a];
    if (scalar < array.offset || scalar >= array.offset + array.blocks * array.width) continue;
    const std::uint64_t local = scalar - array.offset;
    return "parameter array " + std::to_string(a) + ", block " +
           std::to_string(local / array.width) + ", coordinate " +
           std::to_string(local % array.width);
  }
  return "scalar " + std::to_string(scalar);
}

/// The instance whose rows hold `row`.
std::optional<InstancePlace> instance_of_row(const runtime::Model& model, std::uint64_t row) {
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    if (term.energy) continue;
    const std::size_t outputs = term.topology->program.outputs.size();
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      const std::uint64_t first = term.batch->residual_row(i);
      if (row >= first && row < first + outputs) return InstancePlace{t, i};
    }
  }
  return std::nullopt;
}

/// The values that the leaves of one instance read.
struct InstanceInputs {
  std::vector<double> parameters, data, uniforms;
  ir::Inputs<double> view() const { return {parameters, data, uniforms, {}, {}}; }
};

InstanceInputs inputs_of(const runtime::Model& model, const runtime::Term& term,
                         std::size_t instance, std::span<const double> x) {
  const ir::Batch& batch = *term.batch;
  const auto row = static_cast<std::uint32_t>(instance);
  InstanceInputs in;
  for (std::uint32_t c = 0; c < batch.parameter_columns(); ++c) {
    in.parameters.push_back(x[batch.index(row, c)]);
  }
  for (std::uint32_t c = 0; c < batch.uniform_columns(); ++c) {
    in.uniforms.push_back(model.uniforms[batch.index(row, batch.parameter_columns() + c)]);
  }
  for (std::uint32_t c = 0; c < batch.data_columns(); ++c) in.data.push_back(batch.data(row, c));
  return in;
}

/// ": sqrt(-1) is nan", or "" where the scalar evaluator sees nothing wrong.
std::string first_bad_op(const ir::Program& program, const ir::Inputs<double>& inputs) {
  const std::vector<double> values = ir::evaluate_nodes(program, inputs);
  const std::optional<std::size_t> bad = first_nonfinite(values);
  if (!bad) return "";
  const ir::Node& node = program.nodes[*bad];
  std::string text = std::string(ir::info(node.op).name) + "(";
  if (ir::is_leaf(node.op)) text += "#" + std::to_string(node.slot());
  for (const ir::Id operand : node.operands()) {
    text += (text.back() == '(' ? "" : ", ") + number(values[operand]);
  }
  return ": " + text + ") is " + number(values[*bad]);
}

std::string describe_residual(const ProblemModel& model, const InstancePlace& place, double value,
                              std::span<const double> x) {
  const runtime::Term& term = model.model.terms[place.term];
  const InstanceInputs inputs = inputs_of(model.model, term, place.instance, x);
  return model.describe(place.term, place.instance) + " is " + number(value) +
         first_bad_op(term.topology->program, inputs.view());
}

std::optional<std::string> describe_derivative(runtime::Engine& engine, const ProblemModel& model) {
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    if (term.energy) continue;
    const std::size_t columns = term.batch->parameter_columns();
    const std::size_t rows = term.topology->program.outputs.size();
    std::vector<double> values(term.batch->size() * rows * columns);
    engine.jacobian(t, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isfinite(values[k])) continue;
      const std::size_t instance = k / (rows * columns);
      const std::uint32_t scalar =
          term.batch->index(instance, static_cast<std::uint32_t>(k % columns));
      if (is_constant(model.model, scalar)) continue;
      return "the derivative of " + model.describe(t, instance) + " by " +
             describe_scalar(model.model, scalar) + " is " + number(values[k]);
    }
  }
  return std::nullopt;
}

/// The first energy, or derivative of one, that is not finite, as the scalar evaluator sees it.
std::optional<std::string> describe_energy(const ProblemModel& model, std::span<const double> x) {
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    if (!term.energy) continue;
    const ir::Program& energy = term.topology->program;
    const ir::Program gradient = autodiff::scalar_gradient(energy, autodiff::all_slots(energy));
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      const InstanceInputs inputs = inputs_of(model.model, term, i, x);
      const double value = ir::evaluate(energy, inputs.view())[0];
      if (!std::isfinite(value)) {
        return model.describe(t, i) + " is " + number(value) + first_bad_op(energy, inputs.view());
      }
      const std::vector<double> g = ir::evaluate(gradient, inputs.view());
      for (std::uint32_t k = 0; k < g.size(); ++k) {
        const std::uint32_t scalar = term.batch->index(i, k);
        if (std::isfinite(g[k]) || is_constant(model.model, scalar)) continue;
        return "the derivative of " + model.describe(t, i) + " by " +
               describe_scalar(model.model, scalar) + " is " + number(g[k]);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model) {
  if (model.problem != nullptr && !model.problem->host_blocks().empty()) {
    std::vector<double> x(model.model.scalars);
    engine.point(x);
    HostTerms host(*model.problem, model.with_losses);
    if (const std::optional<std::string> text = host.describe_nonfinite(x)) return *text;
  }
  std::vector<double> x(model.model.scalars);
  engine.point(x);
  std::vector<double> residuals(model.model.rows);
  engine.residuals(residuals);
  if (const std::optional<std::size_t> row = first_nonfinite(residuals)) {
    if (const std::optional<InstancePlace> place = instance_of_row(model.model, *row)) {
      return describe_residual(model, *place, residuals[*row], x);
    }
  }
  if (const std::optional<std::string> text = describe_derivative(engine, model)) return *text;
  if (const std::optional<std::string> text = describe_energy(model, x)) return *text;
  return "cost or gradient are not finite, although every residual and derivative is: sums "
         "overflow";
}

void check_start(const char* call, const runtime::Model& model, std::span<const double> x) {
  const std::optional<std::size_t> bad = first_nonfinite(x);
  if (!bad) return;
  throw Error(ErrorCode::NonFinite, std::string(call) + ": " + describe_scalar(model, *bad) +
                                        " is " + number(x[*bad]) +
                                        " at the start; expected a finite number");
}

}  // namespace topograd
