// Compares nodes of many programs with the evaluator, with one kernel per op.
#include "random_nodes.hpp"

#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/graph.hpp"
#include "../../../ir/text.hpp"

#include <cmath>
#include <limits>

namespace topograd::check {
namespace {

constexpr std::size_t kMostFailures = 20;

/// The smallest program with the failure: the op on literals.
std::string op_on_literals(ir::Op op, std::span<const double> operands) {
  ir::Graph graph;
  std::array<ir::Id, 3> x{};
  for (std::size_t k = 0; k < operands.size(); ++k) x[k] = graph.literal(operands[k]);
  const ir::Id y = graph.add(op, x[0], x[1], x[2]);
  return ir::print(graph.extract(std::array{y}, {}));
}

/// True for numbers that may be lost if subnormals are flushed, also before rounding.
template <class T>
bool subnormal(T x) {
  return x != 0 && std::fabs(x) <= std::numeric_limits<T>::min();
}

}  // namespace

void keep(RandomReport& report, Failure failure) {
  ++report.failures_in_all;
  if (report.failures.size() < kMostFailures) report.failures.push_back(std::move(failure));
}

template <class T>
void add_nodes(const ir::Program& program, const ir::Inputs<T>& point, std::uint64_t seed,
               NodeTable& table) {
  table.resize(ir::kOpCount);
  const std::vector<T> values = ir::evaluate_nodes(program, point);
  for (const ir::Node& node : program.nodes) {
    if (ir::is_leaf(node.op)) continue;
    OpRows& rows = table[static_cast<std::size_t>(node.op)];
    for (std::size_t k = 0; k < 3; ++k) {
      const bool used = k < node.operands().size();
      rows.operands[k].push_back(used ? static_cast<double>(values[node.args[k]]) : 0);
    }
    rows.seeds.push_back(seed);
  }
}

template <class T>
void compare_nodes(const NodeTable& table, const Place& place, RandomReport& report) {
  for (std::size_t at = 0; at < table.size(); ++at) {
    const auto op = static_cast<ir::Op>(at);
    const OpRows& rows = table[at];
    if (rows.seeds.empty()) continue;
    const runtime::Columns got =
        place.runner->run(single_op(op), {.count = rows.seeds.size(), .parameters = rows.operands});
    report.nodes += rows.seeds.size();
    for (std::size_t i = 0; i < rows.seeds.size(); ++i) {
      std::array<T, 3> x;
      for (std::size_t k = 0; k < 3; ++k) x[k] = static_cast<T>(rows.operands[k][i]);
      const ir::Deviation deviation = ir::deviation<T>(op, x, static_cast<T>(got[0][i]));
      if (deviation.within) continue;
      const bool tiny = subnormal(x[0]) || subnormal(x[1]) || subnormal(x[2]) ||
                        subnormal(static_cast<T>(deviation.expected));
      if (tiny && !place.keeps_subnormals) continue;
      const std::vector<double> used(x.begin(), x.begin() + ir::arity(op));
      keep(report,
           {.seed = rows.seeds[i],
            .kind = "node",
            .backend = std::string(name(place.runner->backend())),
            .device = place.runner->device(),
            .precision = place.runner->precision(),
            .message = "expected " + ir::print_number(static_cast<double>(deviation.expected)) +
                       ", got " + ir::print_number(got[0][i]),
            .program = op_on_literals(op, used)});
    }
  }
}

#define TG_INSTANTIATE(T)                                                                          \
  template void add_nodes<T>(const ir::Program&, const ir::Inputs<T>&, std::uint64_t, NodeTable&); \
  template void compare_nodes<T>(const NodeTable&, const Place&, RandomReport&);
TG_INSTANTIATE(float)
TG_INSTANTIATE(double)
#undef TG_INSTANTIATE

}  // namespace topograd::check
