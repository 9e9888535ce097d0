// Checks of row runners and of their input.
#include "rows.hpp"

#include "../../ir/error.hpp"
#include "../../ir/hash.hpp"

#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace topograd::runtime {
namespace {

void check(const char* space, std::uint32_t slots, const Columns& columns, std::size_t count) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::Shape, std::string("rows: expected ") + what);
  };
  if (columns.size() < slots) {
    refuse(std::to_string(slots) + " columns of " + space + ", got " +
           std::to_string(columns.size()));
  }
  for (std::uint32_t k = 0; k < slots; ++k) {
    if (columns[k].size() >= count) continue;
    refuse(std::to_string(count) + " numbers of " + space + " " + std::to_string(k) + ", got " +
           std::to_string(columns[k].size()));
  }
}

bool reads(const ir::Program& program, ir::Op op) {
  for (const ir::Node& node : program.nodes) {
    if (node.op == op) return true;
  }
  return false;
}

}  // namespace

void check_rows(const ir::Program& program, const Rows& rows) {
  const ir::LeafCounts& n = program.leaves;
  const struct {
    const char* name;
    ir::Op op;
    std::uint32_t slots;
    const Columns& columns;
  } spaces[] = {{"parameters", ir::Op::Parameter, n.parameters, rows.parameters},
                {"data", ir::Op::Data, n.data, rows.data},
                {"uniforms", ir::Op::Uniform, n.uniforms, rows.uniforms},
                {"tangents", ir::Op::Tangent, n.parameters, rows.tangents},
                {"seeds", ir::Op::Seed, n.seeds, rows.seeds}};
  for (const auto& space : spaces) {
    if (reads(program, space.op)) check(space.name, space.slots, space.columns, rows.count);
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): devices keep them.
std::unique_ptr<RowKernel> RowRunner::prepare(const ir::Program&, RowIndices) {
  throw Error(ErrorCode::Unsupported, "rows: " + device() + " keeps no programs");
}

namespace {

/// Numbers of all sizes: any bits, and neighbours of 1 to 4, whose results are often halfway.
std::vector<double> rounding_operands(std::size_t count, std::uint64_t seed) {
  std::vector<double> out;
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t bits = ir::mix64(seed + k);
    const double any = std::bit_cast<double>(bits);
    const bool ordinary = k % 2 == 0 || !std::isfinite(any);
    out.push_back(ordinary ? 1 + 0x1p-52 * static_cast<double>(bits % (std::uint64_t{3} << 52))
                           : any);
  }
  return out;
}

}  // namespace

void require_same_rounding(RowRunner& runner) {
  using ir::Op;
  constexpr std::size_t kCount = 4096;
  ir::Graph graph;
  const ir::Id a = graph.leaf(Op::Parameter, 0), b = graph.leaf(Op::Parameter, 1);
  const ir::Id c = graph.leaf(Op::Parameter, 2), product = graph.add(Op::Mul, a, b);
  const std::vector<ir::Id> outputs = {
      graph.add(Op::Add, a, b),      graph.add(Op::Sub, a, b), product,
      graph.add(Op::Div, a, b),      graph.add(Op::Sqrt, a),   graph.add(Op::Add, product, c),
      graph.add(Op::Sub, c, product)};
  const ir::Program program = graph.extract(outputs, {.parameters = 3});
  Rows rows{.count = kCount};
  for (const std::uint64_t seed : {1, 2, 3})
    rows.parameters.push_back(rounding_operands(kCount, seed << 32));
  const Columns found = runner.run(program, rows);
  const Columns& x = rows.parameters;
  for (std::size_t i = 0; i < kCount; ++i) {
    const volatile double times = x[0][i] * x[1][i];  // rounded before the sum
    const double expected[] = {x[0][i] + x[1][i], x[0][i] - x[1][i],  times,
                               x[0][i] / x[1][i], std::sqrt(x[0][i]), times + x[2][i],
                               x[2][i] - times};
    for (std::size_t k = 0; k < found.size(); ++k) {
      const double got = found[k][i];
      if (got == expected[k] || (std::isnan(got) && std::isnan(expected[k]))) continue;
      constexpr const char* kNames[] = {"+", "-", "*", "/", "sqrt", "* and +", "* and -"};
      throw Error(ErrorCode::Unsupported, "device \"" + runner.device() + "\" rounds " + kNames[k] +
                                              " otherwise than IEEE 754 says");
    }
  }
}

ir::Program all_nodes(const ir::Program& program) {
  ir::Program out = program;
  out.outputs.resize(out.nodes.size());
  std::iota(out.outputs.begin(), out.outputs.end(), ir::Id{0});
  out.guards.clear();
  return out;
}

}  // namespace topograd::runtime
