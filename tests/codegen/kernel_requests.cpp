// Programs and kernel requests that tests of the emitter share.
#include "kernel_requests.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/program.hpp"

#include <cmath>
#include <limits>
#include <random>

namespace topograd::test {
namespace {

using codegen::Accumulation;
using codegen::Form;
using codegen::IndexSource;
using codegen::KernelRequest;
using codegen::Precision;
using ir::Id;
using ir::Op;

// Both ends a, b of a spring; `a`, `b` are their columns.
codegen::ColumnLayout spring_layout(std::uint32_t a, std::uint32_t b, std::uint32_t columns) {
  codegen::ColumnLayout out;
  for (const std::uint32_t column : {a, b}) {
    for (std::int32_t k = 0; k < 3; ++k) out.parameters.push_back({.column = column, .offset = k});
  }
  out.data = {{}};
  out.index_columns = columns;
  out.data_columns = 1;
  return out;
}

template <class Derive>
KernelRequest gather(KernelRequest out, Derive derive) {
  out.block_width = out.out_width = 3;
  for (std::uint32_t end = 0; end < 2; ++end) {
    codegen::GatherSlot block_slot;
    block_slot.slots = {3 * end, 3 * end + 1, 3 * end + 2};
    block_slot.coordinates = block_slot.targets = {0, 1, 2};
    block_slot.program = derive(block_slot.slots);
    block_slot.layout = spring_layout(0, 0, 1);
    out.block_slots.push_back(block_slot);
  }
  return out;
}

}  // namespace

ir::Program springs() {
  ir::Graph g;
  std::vector<Id> squares;
  for (std::uint32_t k = 0; k < 3; ++k) {
    const Id d = g.add(Op::Sub, g.leaf(Op::Parameter, k), g.leaf(Op::Parameter, k + 3));
    squares.push_back(g.add(Op::Mul, d, d));
  }
  const Id s = g.add(Op::Add, g.add(Op::Add, squares[0], squares[1]), squares[2]);
  const Id zero = g.literal(0), root = g.add(Op::Sqrt, s), positive = g.add(Op::Gt, s, zero);
  const Id norm = g.add(Op::Select, positive, root, zero);
  const Id r = g.add(Op::Sub, norm, g.leaf(Op::Data, 0));
  return g.extract(std::vector{r}, {.parameters = 6, .data = 1});
}

ir::Program scaled() {
  ir::Graph g;
  std::vector<Id> lengths;
  for (const std::uint32_t slot : {0u, 1u}) {
    const Id x = g.leaf(Op::Parameter, slot);
    lengths.push_back(g.add(Op::Sqrt, g.add(Op::Add, g.add(Op::Mul, x, x), g.literal(2))));
  }
  const Id product = g.add(Op::Mul, lengths[0], g.leaf(Op::Parameter, 4));
  const Id quotient = g.add(Op::Div, g.leaf(Op::Parameter, 5), lengths[1]);
  const Id r = g.add(Op::Sub, g.add(Op::Add, product, quotient), g.leaf(Op::Data, 0));
  return g.extract(std::vector{r}, {.parameters = 6, .data = 1});
}

ir::Program affine() {
  ir::Graph g;
  const Id product = g.add(Op::Mul, g.leaf(Op::Parameter, 0), g.literal(2));
  return g.extract(std::vector{g.add(Op::Add, product, g.leaf(Op::Parameter, 1))},
                   {.parameters = 2});
}

KernelRequest springs_request(Form form, Precision precision) {
  KernelRequest out;
  out.form = form;
  out.precision = precision;
  out.layout = spring_layout(0, 1, 2);
  out.parameter_names = {"x_a", "y_a", "z_a", "x_b", "y_b", "z_b"};
  out.data_names = {"rest_length"};
  return out;
}

KernelRequest springs_residual(Precision precision) {
  KernelRequest out = springs_request(Form::store, precision);
  out.name = "springs_residual";
  out.title = "length of an edge minus its rest length";
  out.program = springs();
  return out;
}

KernelRequest springs_cost(Precision precision) {
  KernelRequest out = springs_request(Form::reduce, precision);
  out.name = "springs_cost";
  out.title = "half of the squared residual";
  out.program = autodiff::cost(springs());
  return out;
}

KernelRequest springs_gradient_scatter(Precision precision, Accumulation accumulation) {
  KernelRequest out = springs_request(Form::scatter, precision);
  out.name = "springs_gradient";
  out.title = "gradient of half of the squared residual";
  out.accumulation = accumulation;
  out.program = autodiff::gradient(springs(), autodiff::all_slots(springs()));
  out.targets = autodiff::all_slots(springs());
  return out;
}

KernelRequest springs_jtjp_scatter(Precision precision) {
  KernelRequest out = springs_gradient_scatter(precision, Accumulation::atomic_cas);
  out.name = "springs_jtjp";
  out.program = autodiff::jtjp(springs(), autodiff::all_slots(springs()));
  return out;
}

KernelRequest springs_gradient_gather(Precision precision) {
  KernelRequest out = springs_request(Form::gather, precision);
  out.name = "springs_gradient";
  out.title = "gradient of half of the squared residual";
  return gather(out, [](autodiff::Slots slots) { return autodiff::gradient(springs(), slots); });
}

KernelRequest springs_values_gather(Precision precision) {
  KernelRequest out = springs_gradient_gather(precision);
  out.name = "springs_values";
  out.title = "gradient, cost and rows";
  out.values = {.given = true, .rows = 1};
  out.block_slots[0].program =
      autodiff::gradient_and_cost(springs(), out.block_slots[0].slots, true);
  out.block_slots[0].gives_values = true;
  return out;
}

KernelRequest springs_cost_gradient_store(Precision precision) {
  KernelRequest out = springs_request(Form::store, precision);
  out.name = "springs_cost_gradient";
  out.title = "terms of the gradient, and the cost";
  out.program = autodiff::gradient_and_cost(springs(), autodiff::all_slots(springs()), false);
  out.values = {.given = true};
  return out;
}

KernelRequest scaled_gradient_gather(Precision precision) {
  KernelRequest out = springs_request(Form::gather, precision);
  out.name = "scaled_gradient";
  out.title = "gradient of half of the squared residual";
  return gather(out, [](autodiff::Slots slots) { return autodiff::gradient(scaled(), slots); });
}

KernelRequest springs_jtjp_gather(Precision precision) {
  KernelRequest out = springs_request(Form::gather, precision);
  out.name = "springs_jtjp";
  out.title = "product of the normal matrix with a direction";
  return gather(out, [](autodiff::Slots slots) { return autodiff::jtjp(springs(), slots); });
}

KernelRequest springs_sum_terms(Precision precision) {
  KernelRequest out = springs_gradient_gather(precision);
  out.name = "springs_sum_terms";
  out.title = "sums of stored gradient terms";
  out.form = Form::sum_terms;
  for (codegen::GatherSlot& block_slot : out.block_slots) block_slot.program = {};
  return out;
}

KernelRequest affine_residual(Precision precision) {
  KernelRequest out;
  out.name = "affine_residual";
  out.title = "a * 2 + b";
  out.precision = precision;
  out.program = affine();
  out.layout = codegen::general_layout(out.program.leaves);
  return out;
}

KernelRequest affine_gradient_scatter(Precision precision) {
  KernelRequest out = affine_residual(precision);
  out.name = "affine_gradient";
  out.title = "gradient of half of (a * 2 + b) squared";
  out.form = Form::scatter;
  out.accumulation = Accumulation::atomic_cas;
  out.program = autodiff::gradient(affine(), autodiff::all_slots(affine()));
  out.targets = {0, 1};
  return out;
}

ir::Program single_op(Op op) {
  ir::Graph g;
  Id args[3] = {};
  const int arity = ir::arity(op);
  for (int k = 0; k < arity; ++k) args[k] = g.leaf(Op::Parameter, static_cast<std::uint32_t>(k));
  const Id result =
      ir::is_leaf(op) ? g.leaf(op, 0) : g.intern(ir::make_node(op, args[0], args[1], args[2]));
  ir::LeafCounts leaves{.parameters = 3, .data = 1, .uniforms = 1, .seeds = 1};
  return g.extract(std::vector{result}, leaves);
}

std::vector<std::vector<double>> op_operands(const ir::OpInfo& info, bool specials) {
  std::vector<double> values = {1, -1, 0.5, -0.5, 2, -2, 3, 0.1, -0.7, 100.25, 1e-3, 0.999};
  if (specials)
    values.insert(values.end(), {0.0, -0.0, std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN(), 1e30, -1e-30});
  std::vector<std::vector<double>> columns(3);
  const auto append = [&](double a, double b, double c) {
    columns[0].push_back(a);
    columns[1].push_back(b);
    columns[2].push_back(c);
  };
  for (const double a : values) {
    if (info.arity == 1) append(a, 0, 0);
    for (const double b : info.arity > 1 ? values : std::vector<double>{}) {
      if (info.arity == 2) append(a, b, 0);
      for (const double c : info.arity > 2 ? values : std::vector<double>{}) append(a, b, c);
    }
  }
  std::mt19937 random(7);
  const auto inside = [](double bound, double fallback) {
    return std::isfinite(bound) ? bound : fallback;
  };
  std::uniform_real_distribution<double> first(inside(info.domain.min, -8),
                                               inside(info.domain.max, 8));
  std::uniform_real_distribution<double> other(-8, 8);
  for (int k = 0; k < 500; ++k) append(first(random), other(random), other(random));
  return columns;
}

template <class T>
ir::Deviation op_deviation(const ir::OpInfo& info, const std::array<double, 3>& at, double got) {
  const std::array<T, 3> x = {static_cast<T>(at[0]), static_cast<T>(at[1]), static_cast<T>(at[2])};
  if (!info.composite) return ir::deviation<T>(info.op, x, static_cast<T>(got));
  const ir::Program program = single_op(info.op);
  const ir::RunningError error = ir::running_error<T>(program, {.parameters = x});
  const ir::Enclosure& result = error.nodes[program.outputs[0]];
  const double far = std::fabs(got - static_cast<double>(result.value));
  return {result.value, far / static_cast<double>(ir::ulp<T>(result.value)),
          !error.decided || result.contains(got)};
}

template ir::Deviation op_deviation<float>(const ir::OpInfo& info, const std::array<double, 3>& at,
                                           double got);
template ir::Deviation op_deviation<double>(const ir::OpInfo& info, const std::array<double, 3>& at,
                                            double got);

}  // namespace topograd::test
