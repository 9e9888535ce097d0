// Evaluates expressions over variables and their derivatives.
#include "eager.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"
#include "tape.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace topograd {
namespace {

using detail::TapeNode;
using ir::Op;

struct Variable {
  std::uint64_t node;  ///< position on the thread's tape
  double number;
  double gradient;
};

// Ascending by node. Variables whose nodes have been recycled are removed when a variable with a
// lower node is made.
thread_local std::vector<Variable> variables;

/// The node of a handle. Throws Error{StaleValue}.
std::uint64_t node_of(const char* call, const Value& value) {
  const std::uint64_t node = detail::node_of(value.bits());
  if (value.bits() != 0 && node < detail::tape.size) return node;
  throw Error(
      ErrorCode::StaleValue,
      std::string(call) + (value.bits() == 0
                               ? ": a default-constructed Value has no expression"
                               : ": a Value belongs to another thread, or its thread has ended"));
}

Variable& variable_of(const char* call, const Value& value) {
  const TapeNode& node = detail::tape.nodes[node_of(call, value)];
  if ((node.head & detail::kEager) != 0) return variables[node.a];
  throw Error(ErrorCode::InvalidArgument, std::string(call) +
                                              ": expected a Value made by variable(), got one of " +
                                              std::string(ir::info(node.op()).name));
}

[[noreturn]] void fail_without_number(const char* call, const TapeNode& node) {
  std::string what(ir::info(node.op()).name);
  if ((node.head & detail::kSymbolic) != 0) {
    what += " of a map's element";
  } else {
    what += " " + std::to_string(node.a) + " of a problem";
  }
  throw Error(ErrorCode::WrongProblem, std::string(call) + ": the expression reads " + what +
                                           ", which has no number here; expected variable()s");
}

/// An expression as a program, and the numbers of its leaves.
class Expression {
 public:
  Expression(const char* call, const Value& root) : call_(call) {
    const std::uint64_t node = node_of(call, root);
    tape_.assign({&node, 1});
    build({});
  }

  double value() const { return values()[renamed_.back()]; }

  /// Replaces results computed under a NoGrad by data.
  void cut_constants() {
    const std::span<const std::uint64_t> ids = tape_.ids();
    constant_.resize(ids.size());
    for (std::size_t k = 0; k < ids.size(); ++k)
      constant_[k] = !ir::is_leaf(node(k).op()) && detail::is_made_constant(ids[k]);
    if (std::find(constant_.begin(), constant_.end(), true) == constant_.end()) return;
    const std::vector<double> numbers = values();
    std::vector<double> of_node;
    for (const ir::Id id : renamed_) of_node.push_back(numbers[id]);
    build(of_node);
  }

  /// Adds the derivatives to the variables'.
  void accumulate() const {
    const ir::Program program = graph_.extract(std::span(&renamed_.back(), 1), leaves());
    const auto reads_variable = [](const ir::Node& n) { return n.op == Op::Parameter; };
    if (std::none_of(program.nodes.begin(), program.nodes.end(), reads_variable))
      throw Error(ErrorCode::NoParameters,
                  std::string(call_) + ": the expression does not depend on any variable()");
    const double seed = 1;
    ir::Inputs<double> in = inputs();
    in.seeds = {&seed, 1};
    const std::vector<double> gradient =
        ir::evaluate<double>(autodiff::vjp(program, autodiff::all_slots(program)), in);
    for (std::size_t slot = 0; slot < gradient.size(); ++slot)
      variables[variable_[slot]].gradient += gradient[slot];
  }

 private:
  const TapeNode& node(std::size_t k) const { return tape_.view().nodes[k]; }
  ir::LeafCounts leaves() const {
    return {.parameters = static_cast<std::uint32_t>(numbers_.size()),
            .data = static_cast<std::uint32_t>(data_.size())};
  }
  ir::Inputs<double> inputs() const {
    return {.parameters = numbers_, .data = data_, .uniforms = {}, .tangents = {}, .seeds = {}};
  }
  std::vector<double> values() const {
    ir::Program all;
    all.nodes.assign(graph_.nodes().begin(), graph_.nodes().end());
    return ir::evaluate_nodes<double>(all, inputs());
  }

  /// Builds the graph; constant nodes become leaves with the number in `values`, if given.
  void build(std::span<const double> values) {
    const std::size_t size = tape_.ids().size();
    graph_ = {};
    renamed_.resize(size);
    numbers_.clear();
    variable_.clear();
    data_.clear();
    for (std::size_t k = 0; k < size; ++k)
      renamed_[k] = values.empty() || !constant_[k] ? copy(k) : datum(values[k]);
  }
  ir::Id copy(std::size_t k) {
    const TapeNode& n = node(k);
    if (ir::is_leaf(n.op())) return leaf(n);
    const int arity = ir::arity(n.op());
    return graph_.add(n.op(), renamed_[k - n.a], arity > 1 ? renamed_[k - n.b] : 0,
                      arity > 2 ? renamed_[k - n.c] : 0);
  }
  ir::Id leaf(const TapeNode& n) {
    if (n.op() == Op::Literal) return graph_.literal(detail::number_of(n));
    if ((n.head & detail::kEager) != 0) {
      variable_.push_back(n.a);
      numbers_.push_back(variables[n.a].number);
      return graph_.leaf(Op::Parameter, static_cast<std::uint32_t>(numbers_.size() - 1));
    }
    if (n.head != detail::head(Op::Data)) fail_without_number(call_, n);
    return datum(detail::number_of(n));
  }
  ir::Id datum(double number) {
    data_.push_back(number);
    return graph_.leaf(Op::Data, static_cast<std::uint32_t>(data_.size() - 1));
  }

  const char* call_;
  detail::CompactTape tape_;
  ir::Graph graph_;
  std::vector<ir::Id> renamed_;          // for each node of the compact tape, the root last
  std::vector<std::uint32_t> variable_;  // for each parameter slot
  std::vector<double> numbers_, data_;   // for each slot
  std::vector<bool> constant_;           // for each node
};

}  // namespace

double detail::eager_number(std::uint32_t variable) { return variables[variable].number; }

Value variable(double number) {
  Value value =
      Value::adopt(detail::append_leaf(detail::head(Op::Parameter, detail::kEager), 0, 0, 0));
  const std::uint64_t node = value.bits() - detail::tape.tag;
  while (!variables.empty() && variables.back().node >= node) variables.pop_back();
  detail::tape.nodes[node].a = static_cast<std::uint32_t>(variables.size());
  variables.push_back({node, number, 0});
  return value;
}

void zero_grad() {
  for (Variable& v : variables) v.gradient = 0;
}

double Value::value() const { return Expression("value", *this).value(); }

void Value::backward() const {
  // Ends the segment, so that the nodes of a loop are recycled.
  const detail::FinishResidual finish;
  Expression expression("backward", *this);
  expression.cut_constants();
  expression.accumulate();
}

double Value::grad() const { return variable_of("grad", *this).gradient; }
void Value::zero_grad() const { variable_of("zero_grad", *this).gradient = 0; }
void Value::set_value(double number) const { variable_of("set_value", *this).number = number; }

}  // namespace topograd
