// Traces a function of a few numbers.
#include "traced_function.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "../ir/error.hpp"
#include "../ir/program.hpp"
#include "../ir/text.hpp"
#include "problem.hpp"

namespace topograd::detail {
namespace {

using Function = std::function<std::vector<Value>(std::span<const Value>)>;

thread_local int kernels_only = 0;

/// The numbers in which the only row of a topology differs from the first row of the first one;
/// empty if more differs.
std::optional<std::pair<double, double>> differing_numbers(const Problem& problem) {
  const std::vector<ir::Node>& first = problem.topology(0).program.nodes;
  const std::vector<ir::Node>& second = problem.topology(1).program.nodes;
  const auto differs = std::ranges::mismatch(first, second);
  const bool literals = differs.in1 != first.end() && differs.in2 != second.end() &&
                        differs.in1->op == ir::Op::Literal && differs.in2->op == ir::Op::Literal;
  if (!literals) return std::nullopt;
  return std::pair(differs.in1->literal(), differs.in2->literal());
}

/// Throws if the second residual of the problem differs from the first.
void refuse_memory(const Problem& problem, const char* call, const StandsFor& calls) {
  const auto fail = [&](const std::optional<std::pair<double, double>>& numbers) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": " + not_repeatable(calls, numbers));
  };
  if (problem.topology_count() > 1) fail(differing_numbers(problem));
  const ir::Batch& batch = problem.batch(0);
  for (std::uint32_t k = 0; k < batch.data_columns(); ++k) {
    const double first = batch.data(0, k), second = batch.data(1, k);
    if (std::bit_cast<std::uint64_t>(first) != std::bit_cast<std::uint64_t>(second))
      fail(std::pair(first, second));
  }
  for (std::uint32_t k = 0; k < batch.index_columns(); ++k)
    if (batch.index(0, k) != batch.index(1, k)) fail(std::nullopt);
}

}  // namespace

KernelsOnly::KernelsOnly() { ++kernels_only; }
KernelsOnly::~KernelsOnly() { --kernels_only; }
bool KernelsOnly::in_force() { return kernels_only > 0; }

TracedFunction trace_function(const char* call, std::size_t arguments, const Function& f,
                              const StandsFor& calls) {
  Problem problem;
  std::vector<double> zeros(arguments, 0.0);
  const Parameters x = problem.add_parameters(zeros);
  std::vector<Value> values;
  for (std::size_t k = 0; k < arguments; ++k) values.push_back(x[k]);
  const auto add = [&] {
    const std::vector<Value> results = f(values);
    const KernelsOnly guard;
    problem.add_residual(results, {.loss = {}, .label = call});
  };
  try {
    add();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NoParameters) throw;
    throw Error(error.code(), std::string(call) +
                                  ": expected a result that depends on an argument, got constants");
  }
  const ir::Batch& batch = problem.batch(0);
  TracedFunction traced{problem.topology(0).program, {}};
  if (!traced.program.guards.empty()) {
    throw Error(ErrorCode::Unsupported,
                std::string(call) + ": expected select(), got an if on a Value");
  }
  add();
  refuse_memory(problem, call, calls);
  // Canonical slots have another order than the arguments, and exist only for those that are read.
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : traced.program.nodes) {
    map.push_back(node.op == ir::Op::Parameter ? graph.leaf(node.op, batch.index(0, node.slot()))
                                               : graph.copy(node, map));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : traced.program.outputs) outputs.push_back(map[output]);
  ir::LeafCounts leaves = traced.program.leaves;
  leaves.parameters = static_cast<std::uint32_t>(arguments);
  traced.program = graph.extract(outputs, leaves);
  for (std::uint32_t k = 0; k < batch.data_columns(); ++k)
    traced.numbers.push_back(batch.data(0, k));
  return traced;
}

std::string not_repeatable(const StandsFor& calls,
                           const std::optional<std::pair<double, double>>& numbers) {
  const std::string got = numbers ? "the number " + ir::print_number(numbers->first) +
                                        " and then " + ir::print_number(numbers->second)
                                  : std::string("another expression the second time");
  std::string text = "expected a callable that gives the same each time that it is called for ";
  text.append(calls.one) += ", got " + got + "; it runs once for ";
  text.append(calls.all) += ", so that what it counts or draws is the same in all of them: ";
  return text.append(calls.advice);
}

}  // namespace topograd::detail
