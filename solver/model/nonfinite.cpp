// Search for residuals, ops and operands without a finite value or derivative; decreasing losses.
#include "nonfinite.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "../../autodiff/derivatives.hpp"
#include "../../frontend/inspect/array_names.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/model/model.hpp"
#include "../../runtime/plan/passes.hpp"
#include "host_terms.hpp"

namespace topograd {
namespace {

/// Built-in losses never decrease.
bool may_decrease(const runtime::Term& term) {
  return !term.energy && term.loss != nullptr && *term.loss != *Loss().program();
}

/// Describes the first block of a term whose loss decreases.
std::optional<std::string> describe_in_term(runtime::RowRunner& runner, const ProblemModel& model,
                                            std::size_t t, std::span<const double> x) {
  constexpr std::size_t kBlocksAtOnce = std::size_t{1} << 16;
  const runtime::Term& term = model.model.terms[t];
  const ir::Program program = autodiff::loss_slope({term.topology->program, *term.loss});
  for (std::size_t first = 0; first < term.batch->size(); first += kBlocksAtOnce) {
    const std::size_t count = std::min(kBlocksAtOnce, term.batch->size() - first);
    const runtime::Columns out = runner.run(program, rows_of(model.model, term, x, first, count));
    const auto found = std::ranges::find_if(out[1], [](double slope) { return slope < 0; });
    if (found == out[1].end()) continue;
    const auto k = static_cast<std::size_t>(found - out[1].begin());
    return decreasing_loss_text(model.problem->loss(model.topologies[t], first + k),
                                model.describe(t, first + k), out[0][k], *found);
  }
  return std::nullopt;
}

using runtime::Pass;

struct TermInstance {
  std::size_t term = 0;
  std::size_t instance = 0;
};

bool is_constant(const runtime::Model& model, std::uint32_t scalar) {
  return !model.constant.empty() && model.constant[scalar] != 0;
}

std::optional<std::size_t> first_nonfinite(std::span<const double> values) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  if (found == values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - values.begin());
}

/// The instance with residual row `row`.
std::optional<TermInstance> instance_of_row(const runtime::Model& model, std::uint64_t row) {
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    if (term.energy) continue;
    const std::size_t outputs = term.topology->program.outputs.size();
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      const std::uint64_t first = term.batch->residual_row(i);
      if (row >= first && row < first + outputs) return TermInstance{t, i};
    }
  }
  return std::nullopt;
}

/// Runner of the engine's kernels, and their inputs.
struct Inside {
  runtime::RowRunner& runner;
  const ProblemModel& model;
  std::span<const double> x;

  const runtime::Term& term(std::size_t t) const { return model.model.terms[t]; }
  runtime::Rows rows(std::size_t t, std::size_t first, std::size_t count) const {
    return rows_of(model.model, term(t), x, first, count);
  }
  ir::Program program(Pass pass, std::size_t t) const {
    const runtime::Term& at = term(t);
    const ir::Program& f = at.topology->program;
    return ir::expand(pass_program(pass, f, autodiff::all_slots(f), at.energy, at.loss));
  }
};

/// ": sqrt(-1) is nan": the first op of the pass without a finite result, by the debug variant of
/// the kernel; "" if every node is finite.
std::string first_bad_op(const Inside& inside, Pass pass, const TermInstance& where) {
  const ir::Program program = inside.program(pass, where.term);
  std::vector<double> values;
  for (const auto& column :
       inside.runner.run(runtime::all_nodes(program), inside.rows(where.term, where.instance, 1))) {
    values.push_back(column[0]);
  }
  const std::optional<std::size_t> bad = first_nonfinite(values);
  if (!bad) return "";
  const ir::Node& node = program.nodes[*bad];
  std::string text = std::string(ir::info(node.op).name) + "(";
  if (ir::is_leaf(node.op)) text += "#" + std::to_string(node.slot());
  for (const ir::Id operand : node.operands()) {
    text += (text.back() == '(' ? "" : ", ") + number_text(values[operand]);
  }
  return ": " + text + ") is " + number_text(values[*bad]);
}

std::string describe_value(const Inside& inside, const TermInstance& where, double value) {
  return inside.model.describe(where.term, where.instance) + " is " + number_text(value) +
         first_bad_op(inside, Pass::residual, where);
}

std::string describe_slope(const Inside& inside, Pass pass, const TermInstance& where,
                           std::uint32_t slot, double value) {
  const std::uint32_t scalar = inside.term(where.term).batch->index(where.instance, slot);
  return "the derivative of " + inside.model.describe(where.term, where.instance) + " by " +
         scalar_text(inside.model.problem->arrays(), scalar) + " is " + number_text(value) +
         first_bad_op(inside, pass, where);
}

std::optional<std::string> describe_derivative(runtime::Engine& engine, const Inside& inside) {
  for (std::size_t t = 0; t < inside.model.model.terms.size(); ++t) {
    const runtime::Term& term = inside.term(t);
    if (term.energy) continue;
    const std::size_t columns = term.batch->parameter_columns();
    const std::size_t rows = term.topology->program.outputs.size();
    std::vector<double> values(term.batch->size() * rows * columns);
    engine.jacobian(t, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isfinite(values[k])) continue;
      const TermInstance where{t, k / (rows * columns)};
      const auto slot = static_cast<std::uint32_t>(k % columns);
      if (is_constant(inside.model.model, term.batch->index(where.instance, slot))) continue;
      return describe_slope(inside, Pass::jacobian, where, slot, values[k]);
    }
  }
  return std::nullopt;
}

/// The first derivative of a residual of this process that is not finite.
std::optional<std::string> describe_own_derivative(const Inside& inside) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 14;
  for (std::size_t t = 0; t < inside.model.model.terms.size(); ++t) {
    const runtime::Term& term = inside.term(t);
    if (term.energy) continue;
    const std::size_t columns = term.batch->parameter_columns();
    for (std::size_t first = 0; first < term.batch->size(); first += kAtOnce) {
      const runtime::Rows rows =
          inside.rows(t, first, std::min(kAtOnce, term.batch->size() - first));
      const runtime::Columns slopes = inside.runner.run(inside.program(Pass::jacobian, t), rows);
      for (std::size_t i = 0; i < rows.count; ++i) {
        for (std::size_t k = 0; k < slopes.size(); ++k) {
          const auto slot = static_cast<std::uint32_t>(k % columns);
          if (std::isfinite(slopes[k][i])) continue;
          if (is_constant(inside.model.model, term.batch->index(first + i, slot))) continue;
          return describe_slope(inside, Pass::jacobian, {t, first + i}, slot, slopes[k][i]);
        }
      }
    }
  }
  return std::nullopt;
}

/// The first energy, or derivative of one, that is not finite.
std::optional<std::string> describe_energy(const Inside& inside) {
  for (std::size_t t = 0; t < inside.model.model.terms.size(); ++t) {
    const runtime::Term& term = inside.term(t);
    if (!term.energy) continue;
    const runtime::Rows all = inside.rows(t, 0, term.batch->size());
    const runtime::Columns energy = inside.runner.run(inside.program(Pass::residual, t), all);
    const runtime::Columns slopes = inside.runner.run(inside.program(Pass::gradient, t), all);
    for (std::size_t i = 0; i < all.count; ++i) {
      if (!std::isfinite(energy[0][i])) return describe_value(inside, {t, i}, energy[0][i]);
      for (std::uint32_t k = 0; k < slopes.size(); ++k) {
        if (std::isfinite(slopes[k][i])) continue;
        if (is_constant(inside.model.model, term.batch->index(i, k))) continue;
        return describe_slope(inside, Pass::gradient, {t, i}, k, slopes[k][i]);
      }
    }
  }
  return std::nullopt;
}

/// The first residual that is not finite.
std::optional<std::string> describe_residual(const Inside& inside) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 16;
  for (std::size_t t = 0; t < inside.model.model.terms.size(); ++t) {
    const runtime::Term& term = inside.term(t);
    if (term.energy) continue;
    for (std::size_t first = 0; first < term.batch->size(); first += kAtOnce) {
      const runtime::Rows rows =
          inside.rows(t, first, std::min(kAtOnce, term.batch->size() - first));
      const runtime::Columns values = inside.runner.run(inside.program(Pass::residual, t), rows);
      for (std::size_t i = 0; i < rows.count; ++i) {
        for (const std::vector<double>& column : values) {
          if (!std::isfinite(column[i])) return describe_value(inside, {t, first + i}, column[i]);
        }
      }
    }
  }
  return std::nullopt;
}

/// Each process looks at its share.
std::string describe_in_shares(const Inside& inside) {
  for (const auto& look : {describe_residual, describe_own_derivative, describe_energy})
    if (const std::optional<std::string> text = inside.model.first_of_all(look(inside)))
      return *text;
  return "cost or gradient are not finite, although every residual and derivative is: sums "
         "overflow";
}

}  // namespace

std::optional<std::string> describe_decreasing_loss(runtime::Engine& engine,
                                                    const ProblemModel& model) {
  if (model.problem == nullptr) return std::nullopt;
  const bool on_host = !model.problem->host_blocks().empty();
  std::vector<std::size_t> terms;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t)
    if (may_decrease(model.model.terms[t])) terms.push_back(t);
  if (!on_host && terms.empty()) return std::nullopt;
  std::vector<double> x(model.model.scalars);
  engine.point(x);
  if (on_host) {
    HostTerms host(*model.problem, model.with_losses);
    if (auto text = host.describe_decreasing_loss(x)) return text;
  }
  const std::unique_ptr<runtime::RowRunner> runner =
      runtime::cpu::make_row_runner(runtime::Precision::f64);
  std::optional<std::string> found;
  for (std::size_t k = 0; k < terms.size() && !found; ++k)
    found = describe_in_term(*runner, model, terms[k], x);
  return model.first_of_all(found);
}

std::string decreasing_loss_text(const Loss& loss, const std::string& block, double s,
                                 double slope) {
  return "the loss \"" + loss.describe() + "\" of " + block + " has slope " + number_text(slope) +
         " at a squared norm of " + number_text(s) + "; expected a slope >= 0";
}

std::string describe_nonfinite_trial(runtime::Engine& engine, const ProblemModel& model) {
  try {
    std::vector<double> x(model.model.scalars);
    runtime::damped_steps(engine).trial_point(x);
    if (model.problem != nullptr && !model.problem->host_blocks().empty()) {
      HostTerms host(*model.problem, model.with_losses);
      if (const std::optional<std::string> text = host.describe_nonfinite(x)) return *text;
    }
    const std::unique_ptr<runtime::RowRunner> runner = engine.row_runner();
    if (!runner) return "";
    return model.first_of_all(describe_residual({*runner, model, x})).value_or("");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported) throw;
    return "";
  }
}

std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model) {
  std::vector<double> x(model.model.scalars);
  engine.point(x);
  if (const std::optional<std::string> text = describe_decreasing_loss(engine, model)) return *text;
  if (model.problem != nullptr && !model.problem->host_blocks().empty()) {
    HostTerms host(*model.problem, model.with_losses);
    if (const std::optional<std::string> text = host.describe_nonfinite(x)) return *text;
  }
  const std::unique_ptr<runtime::RowRunner> runner = engine.row_runner();
  const Inside inside{*runner, model, x};
  if (model.shares != nullptr) return describe_in_shares(inside);
  std::vector<double> residuals(model.model.rows);
  engine.residuals(residuals);
  if (const std::optional<std::size_t> row = first_nonfinite(residuals)) {
    if (const std::optional<TermInstance> where = instance_of_row(model.model, *row)) {
      return describe_value(inside, *where, residuals[*row]);
    }
  }
  if (const std::optional<std::string> text = describe_derivative(engine, inside)) return *text;
  if (const std::optional<std::string> text = describe_energy(inside)) return *text;
  std::string text =
      "cost or gradient are not finite, although every residual and derivative is: sums overflow";
  const auto largest =
      std::ranges::max_element(residuals, {}, [](double residual) { return std::abs(residual); });
  if (largest == residuals.end()) return text;
  const auto row = static_cast<std::uint64_t>(largest - residuals.begin());
  if (const std::optional<TermInstance> where = instance_of_row(model.model, row))
    text += ", the largest is " + model.describe(where->term, where->instance) + " with " +
            number_text(*largest);
  return text;
}

KinkCheck::KinkCheck(const ProblemModel& model, std::span<const std::uint8_t> fixed,
                     runtime::Precision precision, autodiff::KinksSought sought)
    : model_(model), fixed_(fixed), precision_(precision), sought_(sought) {
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    const ir::Program& f = term.topology->program;
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    ir::Program cost = pass_program(Pass::cost, f, slots, term.energy, term.loss);
    autodiff::KinkSearch kinks = autodiff::search_for_kinks(cost, slots, sought);
    if (!kinks.empty()) searches_.push_back({t, std::move(cost), std::move(kinks)});
  }
}

template <class Visit>
bool KinkCheck::visit(const Search& search, std::span<const double> x, const Visit& visit) const {
  constexpr std::size_t kAtOnce = std::size_t{1} << 16;
  const runtime::Term& term = model_.model.terms[search.term];
  const std::unique_ptr<runtime::RowRunner> runner = runtime::cpu::make_row_runner(precision_);
  for (std::size_t first = 0; first < term.batch->size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, term.batch->size() - first);
    const runtime::Columns found =
        runner->run(search.kinks.program, rows_of(model_.model, term, x, first, count));
    for (std::size_t i = 0; i < count; ++i)
      if (found[0][i] >= 0 && visit(first + i)) return true;
  }
  return false;
}

std::optional<std::string> KinkCheck::describe(std::span<const double> x) const {
  std::optional<std::string> text;
  for (const Search& search : searches_) {
    const auto describes = [&](std::size_t instance) {
      text = describe_instance(search, instance, x);
      return text.has_value();
    };
    if (visit(search, x, describes)) break;
  }
  return text;
}

std::vector<std::uint32_t> KinkCheck::unknowns_at(std::span<const double> x) const {
  std::vector<std::uint32_t> out;
  for (const Search& search : searches_) {
    const ir::Batch& batch = *model_.model.terms[search.term].batch;
    if (batch.has_resident()) continue;
    visit(search, x, [&](std::size_t instance) {
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot) {
        const std::uint32_t scalar = batch.index(instance, slot);
        if (scalar >= fixed_.size() || fixed_[scalar] == 0) out.push_back(scalar);
      }
      return false;
    });
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<std::string> KinkCheck::describe_instance(const Search& search, std::size_t instance,
                                                        std::span<const double> x) const {
  const runtime::Term& term = model_.model.terms[search.term];
  std::vector<std::uint32_t> free;
  for (std::uint32_t slot = 0; slot < term.batch->parameter_columns(); ++slot) {
    const std::uint32_t scalar = term.batch->index(instance, slot);
    if (scalar >= fixed_.size() || fixed_[scalar] == 0) free.push_back(slot);
  }
  const autodiff::KinkSearch kinks = autodiff::search_for_kinks(search.cost, free, sought_);
  if (kinks.empty()) return std::nullopt;
  const double found = runtime::cpu::make_row_runner(precision_)
                           ->run(kinks.program, rows_of(model_.model, term, x, instance, 1))[0][0];
  if (found < 0) return std::nullopt;
  const ir::Op op = kinks.ops[static_cast<std::size_t>(found)];
  const bool length = op == ir::Op::Sqrt || op == ir::Op::Hypot;
  const std::string name(ir::info(op).name);
  const std::string at = op == ir::Op::Abs ? name + "(0)"
                         : length          ? "the length " + name + " is 0"
                                           : name + " of equal operands";
  return model_.describe(search.term, instance) + " has no second derivative: " + at;
}

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : platform::formatted("%.17g", value);
}

void check_start(const char* call, const Problem& problem, std::span<const double> x) {
  const std::optional<std::size_t> bad = first_nonfinite(x);
  if (!bad) return;
  throw Error(ErrorCode::NonFinite, std::string(call) + ": " + scalar_text(problem.arrays(), *bad) +
                                        " is " + number_text(x[*bad]) +
                                        " at the start; expected a finite number");
}

}  // namespace topograd
