// Prints node values side by side.
#include "node_values.hpp"

#include "../autodiff/derivatives.hpp"
#include "../ir/checking/error_bound.hpp"
#include "../ir/error.hpp"
#include "../ir/machine/formatted.hpp"
#include "../ir/passes/passes.hpp"
#include "../ir/text.hpp"
#include "../runtime/model/model.hpp"
#include "../runtime/plan/passes.hpp"
#include "../solver/model/model.hpp"
#include "check_backends.hpp"

#include <algorithm>
#include <array>

namespace topograd {
namespace {

using runtime::Columns;
using runtime::Pass;
using runtime::Rows;

constexpr std::array kValuedPasses = {Pass::residual, Pass::cost, Pass::gradient, Pass::jacobian,
                                      Pass::hessian};

Pass valued_pass(const std::string& text) {
  return pass_named(text, kValuedPasses, "dump: --values expects --kernel");
}

template <class T>
std::vector<T> row_of(const Columns& columns) {
  std::vector<T> out;
  for (const std::vector<double>& column : columns) out.push_back(static_cast<T>(column[0]));
  return out;
}

/// Values of the nodes on one backend, and the first that deviates from its op.
struct Column {
  std::string title;
  std::vector<double> values;
  std::size_t first_off = ir::kNone;
  ir::Deviation deviation;
};

template <class T>
Column column_of(const ir::Program& program, const check::CheckedBackend& backend,
                 const Rows& row) {
  Column out{.title = std::string(name(backend.runner->backend())), .values = {}, .deviation = {}};
  for (const auto& c : backend.runner->run(runtime::all_nodes(program), row))
    out.values.push_back(c[0]);
  for (ir::Id id = 0; id < program.nodes.size(); ++id) {
    const ir::Node& node = program.nodes[id];
    if (ir::is_leaf(node.op)) continue;
    std::array<T, 3> x = {};
    for (std::size_t k = 0; k < node.operands().size(); ++k)
      x[k] = static_cast<T>(out.values[node.args[k]]);
    out.deviation = ir::deviation<T>(node.op, x, static_cast<T>(out.values[id]));
    if (out.deviation.within) continue;
    out.first_off = id;
    break;
  }
  return out;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

std::string number(double value, Precision precision) {
  return precision == Precision::f32 ? platform::formatted("%.9g", value)
                                     : platform::formatted("%.17g", value);
}

constexpr std::size_t kNodeWidth = 34, kNumberWidth = 26;

/// One table: the evaluator's column, then the backends of that precision.
template <class T>
NodeValues table(const ir::Program& program, const Rows& row, Precision precision,
                 std::span<const check::CheckedBackend> backends) {
  const auto p = row_of<T>(row.parameters), d = row_of<T>(row.data), u = row_of<T>(row.uniforms);
  const std::vector<T> reference = ir::evaluate_nodes<T>(program, {p, d, u, {}, {}});
  std::vector<Column> columns;
  for (const check::CheckedBackend& backend : backends) {
    if (backend.runner->precision() == precision)
      columns.push_back(column_of<T>(program, backend, row));
  }
  std::string text =
      padded(std::string(name(precision)), kNodeWidth) + padded("evaluator", kNumberWidth);
  for (const Column& c : columns) text += padded(c.title, kNumberWidth);
  const auto end_line = [&] {
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  };
  end_line();
  for (ir::Id id = 0; id < program.nodes.size(); ++id) {
    text += padded(ir::print_node(id, program.nodes[id]), kNodeWidth);
    text += padded(number(static_cast<double>(reference[id]), precision), kNumberWidth);
    for (const Column& c : columns) {
      text +=
          padded(number(c.values[id], precision) + (c.first_off == id ? " <<" : ""), kNumberWidth);
    }
    end_line();
  }
  bool same = true;
  for (const Column& c : columns) {
    if (c.first_off == ir::kNone) continue;
    same = false;
    const ir::Op op = program.nodes[c.first_off].op;
    const double bound = precision == Precision::f32 ? ir::info(op).ulp_f32 : ir::info(op).ulp_f64;
    text += platform::formatted(
        "first difference: %%%zu, %s on %s is %.3g ulp off its operands' value %.17g, bound %g\n",
        c.first_off, std::string(ir::info(op).name).c_str(), c.title.c_str(), c.deviation.ulp,
        static_cast<double>(c.deviation.expected), bound);
  }
  return {text + (same ? "no difference beyond the ops' bounds\n" : ""), !same};
}

void append(NodeValues& out, const NodeValues& part) {
  out.text += (out.text.empty() ? "" : "\n") + part.text;
  out.differs = out.differs || part.differs;
}

NodeValues tables(const ir::Program& program, const Rows& row,
                  std::span<const check::CheckedBackend> backends) {
  NodeValues out;
  for (const Precision precision : check::precisions_of(backends)) {
    append(out, precision == Precision::f32 ? table<float>(program, row, precision, backends)
                                            : table<double>(program, row, precision, backends));
  }
  return out;
}

}  // namespace

NodeValues node_values(const Problem& problem, const NodeValuesOptions& options,
                       const check::Options& where) {
  return node_values(problem, options, check::open_backends(where));
}

NodeValues node_values(const ir::Program& residual, std::span<const double> at,
                       const NodeValuesOptions& options, const check::Options& where) {
  return node_values(residual, at, options, check::open_backends(where));
}

NodeValues node_values(const Problem& problem, const NodeValuesOptions& options,
                       std::span<const check::CheckedBackend> backends) {
  const Pass pass = valued_pass(options.kernel);
  const ProblemModel model = make_model("dump", problem);
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  NodeValues out;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    if (options.instance >= term.batch->size()) continue;
    if (term.energy && pass == Pass::jacobian) continue;
    const ir::Program& f = term.topology->program;
    const ir::Program program =
        ir::expand(pass_program(pass, f, autodiff::all_slots(f), term.energy, term.loss));
    NodeValues part = tables(program, rows_of(model.model, term, x, options.instance, 1), backends);
    part.text =
        std::string(name(pass)) + " of " + model.describe(t, options.instance) + "\n" + part.text;
    append(out, part);
  }
  if (!out.text.empty()) return out;
  throw Error(ErrorCode::InvalidArgument, "dump: no topology has an instance " +
                                              std::to_string(options.instance) + " with a " +
                                              options.kernel);
}

NodeValues node_values(const ir::Program& residual, std::span<const double> at,
                       const NodeValuesOptions& options,
                       std::span<const check::CheckedBackend> backends) {
  const Pass pass = valued_pass(options.kernel);
  const std::size_t p = residual.leaves.parameters, d = residual.leaves.data,
                    u = residual.leaves.uniforms;
  if (at.size() != p + d + u) {
    throw Error(ErrorCode::Shape, "dump: expected --at with " + std::to_string(p + d + u) +
                                      " numbers (parameters, data, uniforms), got " +
                                      std::to_string(at.size()));
  }
  const auto columns = [&](std::size_t first, std::size_t count) {
    Columns out;
    for (std::size_t k = 0; k < count; ++k) out.push_back({at[first + k]});
    return out;
  };
  const Rows row = {.count = 1,
                    .parameters = columns(0, p),
                    .data = columns(p, d),
                    .uniforms = columns(p + d, u),
                    .tangents = {},
                    .seeds = {}};
  const ir::Program program =
      ir::expand(pass_program(pass, residual, autodiff::all_slots(residual)));
  return tables(program, row, backends);
}

}  // namespace topograd
