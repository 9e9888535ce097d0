// Domain errors and comparison with the CPU, by debug variants of the kernels.
#include "inspect.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/checking/error_bound.hpp"
#include "../../ir/error.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/topology/topology.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/model/model.hpp"
#include "../../runtime/plan/passes.hpp"
#include "nonfinite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

namespace topograd {
namespace {

using runtime::Columns;
using runtime::Pass;
using runtime::Rows;

constexpr std::size_t kMostMessages = 10;

ir::Program program_of(Pass pass, const runtime::Term& term) {
  const ir::Program& f = term.topology->program;
  return ir::expand(pass_program(pass, f, autodiff::all_slots(f), term.energy, term.loss));
}

Rows row(const Rows& rows, std::size_t i) {
  const auto pick = [&](const Columns& columns) {
    Columns out;
    for (const std::vector<double>& column : columns) out.push_back({column[i]});
    return out;
  };
  return {.count = 1,
          .parameters = pick(rows.parameters),
          .data = pick(rows.data),
          .uniforms = pick(rows.uniforms),
          .tangents = {},
          .seeds = {}};
}

/// "sqrt(-1)": a node of the debug variant with its operands.
std::string call_text(runtime::RowRunner& runner, const ir::Program& program, const Rows& at,
                      ir::Id id) {
  const Columns values = runner.run(runtime::all_nodes(program), at);
  const ir::Node& node = program.nodes[id];
  std::string text = std::string(ir::info(node.op).name) + "(";
  for (const ir::Id operand : node.operands())
    text += (text.back() == '(' ? "" : ", ") + number_text(values[operand][0]);
  return text + ")";
}

template <class T>
std::vector<T> values_at(const Columns& columns, std::size_t i) {
  std::vector<T> out;
  for (const std::vector<double>& column : columns) out.push_back(static_cast<T>(column[i]));
  return out;
}

/// Allowed errors of a kernel in each output of one instance; infinite if unknown.
template <class T>
std::vector<double> allowed(const ir::Program& program, const Rows& rows, std::size_t i) {
  const auto p = values_at<T>(rows.parameters, i), d = values_at<T>(rows.data, i),
             u = values_at<T>(rows.uniforms, i);
  const ir::RunningError error = ir::running_error<T>(program, {p, d, u, {}, {}});
  std::vector<double> out;
  for (const ir::Id output : program.outputs) {
    const long double e =
        error.decided ? error.nodes[output].error : std::numeric_limits<long double>::infinity();
    out.push_back(static_cast<double>(e));
  }
  return out;
}

/// One solve's comparison at one point.
class Comparison {
 public:
  Comparison(const SolverOptions& options, const ProblemModel& model, runtime::Engine& engine,
             CrossCheck& report)
      : options_(options),
        model_(model),
        engine_(engine),
        report_(report),
        cpu_(runtime::cpu::make_row_runner(options.precision)),
        x_(model.model.scalars) {
    engine.point(x_);
  }

  void run() {
    std::vector<double> residuals(model_.model.rows);
    engine_.residuals(residuals);
    sums_.assign(model_.model.scalars, {});
    products_.assign(model_.model.scalars, {});
    for (std::size_t t = 0; t < model_.model.terms.size(); ++t) {
      const runtime::Term& term = model_.model.terms[t];
      const std::vector<std::size_t> chosen = sample(term.batch->size());
      if (!term.energy) {
        compare_residuals(t, chosen, residuals);
        compare_jacobians(t, chosen);
      }
      if (everything()) add_gradients(t);
      if (everything() && !term.energy) add_products(t);
    }
    if (everything()) compare_gradient();
    if (everything()) compare_product();
  }

 private:
  struct Sum {
    double value = 0, size = 0, allowed = 0;
    std::uint64_t terms = 0;
  };

  bool everything() const { return options_.cross_check == kCrossCheckAll; }

  /// Evenly spread instances.
  std::vector<std::size_t> sample(std::size_t instances) const {
    const std::size_t n =
        static_cast<std::size_t>(std::min<std::uint64_t>(options_.cross_check, instances));
    std::vector<std::size_t> chosen(n);
    for (std::size_t k = 0; k < n; ++k) chosen[k] = k * instances / n;
    return chosen;
  }

  std::vector<double> bounds(const ir::Program& program, const Rows& rows, std::size_t i) const {
    return options_.precision == Precision::f32 ? allowed<float>(program, rows, i)
                                                : allowed<double>(program, rows, i);
  }

  /// Compares `got(instance, output)` of the engine with the interpreter.
  template <class Got>
  void compare(Pass pass, std::size_t t, const std::vector<std::size_t>& chosen, const Got& got) {
    const runtime::Term& term = model_.model.terms[t];
    const ir::Program program = program_of(pass, term);
    for (const std::size_t i : chosen) {
      const Rows at = rows_of(model_.model, term, x_, i, 1);
      const Columns want = cpu_->run(program, at);
      const std::vector<double> bound = bounds(program, at, 0);
      for (std::size_t k = 0; k < want.size(); ++k) {
        const std::optional<double> value = got(i, k);
        if (value) note(pass, t, i, k, *value, want[k][0], 2 * bound[k]);
      }
    }
  }

  void compare_residuals(std::size_t t, const std::vector<std::size_t>& chosen,
                         const std::vector<double>& residuals) {
    const ir::Batch& batch = *model_.model.terms[t].batch;
    compare(Pass::residual, t, chosen, [&](std::size_t i, std::size_t k) {
      return std::optional(residuals[batch.residual_row(i) + k]);
    });
  }

  void compare_jacobians(std::size_t t, const std::vector<std::size_t>& chosen) {
    const runtime::Term& term = model_.model.terms[t];
    const std::size_t n = term.batch->parameter_columns();
    const std::size_t width = n * term.topology->program.outputs.size();
    std::vector<double> values(term.batch->size() * width);
    engine_.jacobian(t, values);
    compare(Pass::jacobian, t, chosen, [&](std::size_t i, std::size_t k) -> std::optional<double> {
      if (constant(term.batch->index(i, static_cast<std::uint32_t>(k % n)))) return std::nullopt;
      return values[i * width + k];
    });
  }

  void add_gradients(std::size_t t) {
    const runtime::Term& term = model_.model.terms[t];
    const ir::Program program = program_of(Pass::gradient, term);
    const Rows rows = rows_of(model_.model, term, x_, 0, term.batch->size());
    const Columns slopes = cpu_->run(program, rows);
    for (std::size_t i = 0; i < rows.count; ++i) {
      const std::vector<double> bound = bounds(program, rows, i);
      for (std::uint32_t k = 0; k < slopes.size(); ++k) {
        Sum& sum = sums_[term.batch->index(i, k)];
        sum.value += slopes[k][i];
        sum.size += std::fabs(slopes[k][i]);
        sum.allowed += 2 * bound[k];
        ++sum.terms;
      }
    }
  }

  /// Adds JᵀJ·p of a term's instances from the interpreter's Jacobians. Engines may multiply in any
  /// order, or use the derivative along p: the error bound has a part for the entries of J and one
  /// for the products.
  void add_products(std::size_t t) {
    const runtime::Term& term = model_.model.terms[t];
    const ir::Program program = program_of(Pass::jacobian, term);
    const Rows rows = rows_of(model_.model, term, x_, 0, term.batch->size());
    const Columns J = cpu_->run(program, rows);
    const std::size_t n = term.batch->parameter_columns();
    const std::size_t m = term.topology->program.outputs.size();
    const double rounding = unit() * static_cast<double>(2 * (n + m) + 8);
    for (std::size_t i = 0; i < rows.count; ++i) {
      const std::vector<double> bound = bounds(program, rows, i);
      for (std::size_t r = 0; r < m; ++r) {
        double along = 0, size = 0, off = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const double p = direction(term.batch->index(i, static_cast<std::uint32_t>(k)));
          along += J[r * n + k][i] * p;
          size += std::fabs(J[r * n + k][i] * p);
          off += 2 * bound[r * n + k] * std::fabs(p);
        }
        off += rounding * size;
        for (std::size_t k = 0; k < n; ++k) {
          Sum& sum = products_[term.batch->index(i, static_cast<std::uint32_t>(k))];
          const double entry = J[r * n + k][i];
          sum.value += entry * along;
          sum.size += std::fabs(entry) * size;
          sum.allowed +=
              std::fabs(entry) * (off + rounding * size) + 2 * bound[r * n + k] * (size + off);
          ++sum.terms;
        }
      }
    }
  }

  /// Numbers that f32 can represent, of different signs and sizes; 0 for fixed scalars.
  double direction(std::uint32_t scalar) const {
    if (constant(scalar)) return 0;
    return (scalar % 3 == 0 ? -1.0 : 1.0) * (1.0 + scalar % 5);
  }

  double unit() const {
    return options_.precision == Precision::f32
               ? static_cast<double>(std::numeric_limits<float>::epsilon())
               : std::numeric_limits<double>::epsilon();
  }

  /// Sums may have any order: a sum of n terms has an error of at most n units of their size.
  void compare_sums(const char* kernels, const std::vector<double>& got,
                    const std::vector<Sum>& sums) {
    for (std::uint32_t s = 0; s < got.size(); ++s) {
      if (constant(s)) continue;
      const Sum& sum = sums[s];
      const double bound = sum.allowed + unit() * static_cast<double>(sum.terms) * sum.size;
      ++report_.compared;
      if (agree(got[s], sum.value, bound)) continue;
      report(std::string(name(engine_.backend())) + " " + kernels + " kernels, scalar " +
                 std::to_string(s),
             got[s], sum.value, bound);
    }
  }

  void compare_gradient() {
    std::vector<double> gradient(model_.model.scalars);
    engine_.gradient(gradient);
    compare_sums("gradient", gradient, sums_);
  }

  void compare_product() {
    std::vector<double> p(model_.model.scalars), product(model_.model.scalars);
    for (std::uint32_t s = 0; s < p.size(); ++s) p[s] = direction(s);
    engine_.jtjp(p, product);
    compare_sums("jtjp", product, products_);
  }

  bool constant(std::uint32_t scalar) const {
    return !model_.model.constant.empty() && model_.model.constant[scalar] != 0;
  }

  static bool agree(double got, double want, double bound) {
    if (std::isnan(got) && std::isnan(want)) return true;
    return got == want || std::isinf(bound) || std::fabs(got - want) <= bound;
  }

  void note(Pass pass, std::size_t t, std::size_t i, std::size_t k, double got, double want,
            double bound) {
    ++report_.compared;
    if (agree(got, want, bound)) return;
    report(std::string(name(engine_.backend())) + " " + std::string(name(pass)) + " kernel of " +
               model_.describe(t, i) + ", output " + std::to_string(k),
           got, want, bound);
  }

  void report(const std::string& where, double got, double want, double bound) {
    ++report_.differences;
    if (report_.messages.size() == kMostMessages) return;
    report_.messages.push_back(where + ": " + number_text(got) + ", on the interpreter " +
                               number_text(want) + ", allowed difference " + number_text(bound));
  }

  const SolverOptions& options_;
  const ProblemModel& model_;
  runtime::Engine& engine_;
  CrossCheck& report_;
  std::unique_ptr<runtime::RowRunner> cpu_;
  std::vector<double> x_;
  // By scalar, from the interpreter: gradients and JᵀJ·p.
  std::vector<Sum> sums_, products_;
};

}  // namespace

void Inspector::check_domains(const runtime::Engine& engine, std::span<const double> x,
                              const char* where) const {
  if (options_.domain != DomainPolicy::strict) return;
  const std::unique_ptr<runtime::RowRunner> runner = engine.row_runner();
  for (std::size_t t = 0; t < model_.model.terms.size(); ++t) {
    const runtime::Term& term = model_.model.terms[t];
    const ir::Program program = ir::remove_dead(ir::expand(term.topology->program));
    const Rows rows = rows_of(model_.model, term, x, 0, term.batch->size());
    const Columns found = runner->run(ir::domain_errors(program), rows);
    for (std::size_t i = 0; i < rows.count; ++i) {
      if (found[0][i] < 0) continue;
      const auto id = static_cast<ir::Id>(found[0][i]);
      throw Error(ErrorCode::InvalidArgument, std::string("solve: domain error ") + where + ": " +
                                                  model_.describe(t, i) + ": " +
                                                  call_text(*runner, program, row(rows, i), id) +
                                                  " is outside of the domain");
    }
  }
}

void Inspector::check_point(runtime::Engine& engine, const char* where) const {
  if (options_.domain != DomainPolicy::strict) return;
  std::vector<double> x(model_.model.scalars);
  engine.point(x);
  check_domains(engine, x, where);
}

void Inspector::check_trial(runtime::Engine& engine) const {
  if (options_.domain != DomainPolicy::strict) return;
  std::vector<double> x(model_.model.scalars);
  runtime::damped_steps(engine).trial_point(x);
  check_domains(engine, x, "at a trial");
}

void Inspector::cross_check(runtime::Engine& engine) {
  if (options_.cross_check == 0) return;
  Comparison(options_, model_, engine, summary_.cross_check).run();
}

void guard_domains(ProblemModel& model, double epsilon) {
  for (runtime::Term& term : model.model.terms) {
    auto guarded = std::make_unique<ir::Topology>(*term.topology);
    guarded->program = ir::guard_domains(term.topology->program, epsilon);
    guarded->hash = ir::canonicalize(guarded->program).topology.hash;
    term.topology = guarded.get();
    model.own_topologies.push_back(std::move(guarded));
  }
}

}  // namespace topograd
