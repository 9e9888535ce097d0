// Compositions of ops as programs, compared with the evaluator.
#include "compositions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"

namespace topograd::runtime {
namespace {

using ir::Id;
using ir::Op;

constexpr std::uint32_t kParameters = 3;
constexpr std::size_t kRows = 64;

/// The values, then their derivatives by parameter 0.
ir::Program with_derivatives(const ir::Program& values) {
  const std::array<std::uint32_t, 1> first = {0};
  return ir::expand(autodiff::residual_and_jacobian(values, first));
}

template <class T>
std::vector<double> special_numbers() {
  using Limits = std::numeric_limits<T>;
  const T infinity = Limits::infinity();
  std::vector<double> all = {0, 1, 2, 0.5, 0.3, 3, 1e-3, 1e-9, 1e5, 1e10, 12.25, 88.5, 709.5};
  for (const T x : {Limits::denorm_min(), Limits::min(), Limits::epsilon(), Limits::max(),
                    std::nextafter(T(1), T(0)), std::nextafter(T(1), T(2)), infinity}) {
    all.push_back(x);
  }
  const std::size_t positive = all.size();
  for (std::size_t k = 0; k < positive; ++k) all.push_back(-all[k]);
  all.push_back(Limits::quiet_NaN());
  return all;
}

template <class T>
class Comparison {
 public:
  Comparison(std::span<const Op> composition, const Rows& rows)
      : composition_(composition), rows_(rows) {
    const ir::Program values = compose(composition);
    kernels_[0] = {.program = values, .values = values.outputs.size()};
    kernels_[1] = {.program = with_derivatives(values), .values = values.outputs.size()};
    for (Kernel& kernel : kernels_) kernel.answers = find_answers<T>(kernel.program, rows);
  }

  void run(const CheckedRunner& checked) {
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const Kernel& kernel = kernels_[k];
      const Columns columns = checked.runner->run(kernel.program, rows_);
      compare(kernel, columns, checked, k == 0 ? "value" : "value beside derivative");
    }
  }

  CompositionReport take() { return std::move(report_); }

 private:
  struct Kernel {
    ir::Program program;
    std::size_t values = 0;  // outputs that are not derivatives
    std::vector<Answer> answers;
  };

  /// Records the first wrong number.
  void compare(const Kernel& kernel, const Columns& columns, const CheckedRunner& checked,
               const char* value) {
    bool reported = false;
    for (std::size_t i = 0; i < rows_.count; ++i) {
      const bool tiny_row = std::ranges::any_of(
          rows_.parameters, [&](const auto& c) { return is_tiny(static_cast<T>(c[i])); });
      for (std::size_t k = 0; k < columns.size(); ++k) {
        const Answer& answer = kernel.answers[i * columns.size() + k];
        const bool lost =
            tiny_row || answer.tiny || is_tiny(static_cast<T>(answer.enclosure.value));
        if (lost && !checked.keeps_subnormals) continue;
        ++(answer.compare ? report_.compared : report_.undecided);
        const T got = static_cast<T>(columns[k][i]);
        const ir::Deviation found = deviation<T>(answer, got);
        if (found.within || reported) continue;
        reported = true;
        report_.wrong.push_back({.runner = checked.runner,
                                 .composition = text(composition_, k % kernel.values),
                                 .what = k < kernel.values ? value : "derivative",
                                 .at = {},
                                 .got = got,
                                 .expected = static_cast<double>(found.expected)});
        for (const auto& column : rows_.parameters) report_.wrong.back().at.push_back(column[i]);
      }
    }
  }

  std::span<const Op> composition_;
  const Rows& rows_;
  std::array<Kernel, 2> kernels_;
  CompositionReport report_;
};

template <class T>
CompositionReport check(std::span<const Op> composition, const Rows& rows,
                        std::span<const CheckedRunner> runners) {
  Comparison<T> comparison(composition, rows);
  for (const CheckedRunner& checked : runners) comparison.run(checked);
  return comparison.take();
}

}  // namespace

std::vector<Op> composable_ops() {
  std::vector<Op> out;
  for (const ir::OpInfo& row : ir::kOps) {
    if (!row.leaf && !row.boolean) out.push_back(row.op);
  }
  return out;
}

std::string text(std::span<const Op> composition, std::size_t slot) {
  std::string inner = "a";
  for (std::size_t i = 0; i < composition.size(); ++i) {
    std::vector<std::string> operands = {"b", "c"};
    const std::size_t at = i + 1 < composition.size() ? 0 : std::min<std::size_t>(slot, 2);
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(at), inner);
    inner = std::string(ir::info(composition[i]).name) + "(" + operands[0];
    for (int k = 1; k < ir::arity(composition[i]); ++k)
      inner += ", " + operands[static_cast<std::size_t>(k)];
    inner += ")";
  }
  return inner;
}

ir::Program compose(std::span<const Op> composition) {
  if (composition.empty())
    throw Error(ErrorCode::InvalidArgument, "compose: expected at least one op, got none");
  ir::Graph graph;
  std::array<Id, kParameters> p{};
  for (std::uint32_t k = 0; k < kParameters; ++k) p[k] = graph.leaf(Op::Parameter, k);
  Id inner = p[0];
  for (const Op op : composition.first(composition.size() - 1))
    inner = graph.add(op, inner, p[1], p[2]);
  const Op last = composition.back();
  std::vector<Id> outputs;
  for (int slot = 0; slot < ir::arity(last); ++slot) {
    std::vector<Id> operands = {p[1], p[2]};
    operands.insert(operands.begin() + slot, inner);
    outputs.push_back(graph.add(last, operands[0], operands[1], operands[2]));
  }
  return ir::expand(graph.extract(outputs, {.parameters = kParameters}));
}

Rows composition_rows(Precision precision) {
  const bool wide = precision == Precision::f64;
  const std::vector<double> ordinary = {0.84, 0.3,  -0.4,   0.708, 0.718, -0.95, 1.7,  -2.6,
                                        4.2,  0.05, -0.013, 6.9,   -5.1,  0.6,   -1.2, 2.3};
  const std::vector<double> special = wide ? special_numbers<double>() : special_numbers<float>();
  Rows rows{.count = kRows, .parameters = Columns(kParameters)};
  for (std::size_t i = 0; i < kRows; ++i) {
    const std::array<double, kParameters> x = {
        i < ordinary.size() ? ordinary[i] : special[(i - ordinary.size()) % special.size()],
        i % 3 != 2 ? ordinary[(5 * i + 2) % ordinary.size()] : special[(7 * i) % special.size()],
        i % 5 != 4 ? ordinary[(3 * i + 1) % ordinary.size()] : special[(11 * i) % special.size()]};
    for (std::size_t k = 0; k < x.size(); ++k)
      rows.parameters[k].push_back(wide ? x[k] : static_cast<float>(x[k]));
  }
  return rows;
}

std::string WrongNumber::message() const {
  std::string out = what + " of " + composition + " at ";
  for (std::size_t k = 0; k < at.size(); ++k)
    out += platform::formatted("%s%c = %.9g", k > 0 ? ", " : "", "abc"[k], at[k]);
  return out + platform::formatted(": got %.9g, expected %.9g", got, expected);
}

void CompositionReport::add(CompositionReport&& other) {
  compared += other.compared;
  undecided += other.undecided;
  std::ranges::move(other.wrong, std::back_inserter(wrong));
}

CompositionReport check_composition(std::span<const Op> composition, const Rows& rows,
                                    std::span<const CheckedRunner> runners) {
  if (runners.empty()) return {};
  return runners.front().runner->precision() == Precision::f32
             ? check<float>(composition, rows, runners)
             : check<double>(composition, rows, runners);
}

bool keeps_subnormals(RowRunner& runner) {
  const double least = runner.precision() == Precision::f32
                           ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                           : std::numeric_limits<double>::denorm_min();
  const Rows rows{.count = 1, .parameters = {{least}, {least}, {0}}};
  return runner.run(compose(std::array{Op::Add}), rows)[0][0] == 2 * least;
}

template <class T>
std::vector<Answer> find_answers(const ir::Program& program, const Rows& rows) {
  check_rows(program, rows);
  std::vector<Answer> all;
  std::vector<T> point(rows.parameters.size());
  for (std::size_t i = 0; i < rows.count; ++i) {
    for (std::size_t k = 0; k < point.size(); ++k) point[k] = static_cast<T>(rows.parameters[k][i]);
    const ir::RunningError error = ir::running_error<T>(program, {.parameters = point});
    const bool lost = std::ranges::any_of(error.nodes, [](const ir::Enclosure& e) {
      return is_tiny(static_cast<T>(e.value)) || (e.value != 0 && static_cast<T>(e.value) == 0);
    });
    for (const ir::Id output : program.outputs) {
      const ir::Enclosure& enclosure = error.nodes[output];
      all.push_back({enclosure, error.decided && enclosure.known(), lost});
    }
  }
  return all;
}

template <class T>
ir::Deviation deviation(const Answer& answer, T got) {
  if (!answer.compare) return {answer.enclosure.value, 0, true};
  const bool within = answer.enclosure.contains(got);
  const long double expected = answer.enclosure.value;
  double far = within ? 0 : std::numeric_limits<double>::infinity();
  if (std::isfinite(expected) && std::isfinite(got)) {
    far = static_cast<double>(std::fabs(got - expected) / ir::ulp<T>(expected));
  }
  return {expected, far, within};
}

template std::vector<Answer> find_answers<float>(const ir::Program&, const Rows&);
template std::vector<Answer> find_answers<double>(const ir::Program&, const Rows&);
template ir::Deviation deviation<float>(const Answer&, float);
template ir::Deviation deviation<double>(const Answer&, double);

}  // namespace topograd::runtime
