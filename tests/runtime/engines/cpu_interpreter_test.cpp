// The tile interpreter against the scalar evaluator: every op, every instruction set, special
// values, odd sizes.
#include <gtest/gtest.h>
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/evaluate.hpp"
#include "../../../ir/program.hpp"
#include "../../../ir/text.hpp"
#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "../../support/random_program.hpp"

namespace topograd::test {
namespace {

using ir::Op;
using runtime::cpu::Binding;
using runtime::cpu::Bits;
using runtime::cpu::Column;
using runtime::cpu::kTile;
using runtime::cpu::LeafUse;
using runtime::cpu::TileKernel;
using runtime::cpu::TileOps;
using runtime::cpu::Worker;

template <class T>
std::vector<const TileOps<T>*> tables_of(Bits bits) {
  std::vector<const TileOps<T>*> sets;
  for (auto table = runtime::cpu::all_tile_ops<T>(bits); *table != nullptr; ++table)
    sets.push_back(*table);
  return sets;
}

template <class T>
std::vector<const TileOps<T>*> instruction_sets() {
  std::vector<const TileOps<T>*> sets = tables_of<T>(Bits::native);
  for (const TileOps<T>* portable : tables_of<T>(Bits::portable)) sets.push_back(portable);
  return sets;
}

// Numbers of the leaves of all instances: leaf number `slot` of instance i at [slot][i].
template <class T>
struct Instances {
  std::size_t count;
  std::vector<std::vector<T>> parameters, data, uniforms;
};

// Runs a program over all instances; parameters are gathered through a reversed index column.
template <class T>
std::vector<std::vector<T>> run(const ir::Program& program, const Instances<T>& in,
                                const TileOps<T>& ops) {
  const TileKernel<T> kernel(program, ops);
  const std::size_t padded = runtime::cpu::whole_tiles(in.count);
  Column<std::uint32_t> index(padded);
  for (std::size_t i = 0; i < padded; ++i) {
    index[i] = static_cast<std::uint32_t>(in.count - 1 - std::min(i, in.count - 1));
  }
  std::vector<std::vector<T>> reversed;
  std::vector<Column<T>> columns, outputs;
  Binding<T> binding;
  reversed.reserve(kernel.program().gathers.size());
  for (const LeafUse& leaf : kernel.program().gathers) {
    if (leaf.op == Op::Uniform) {
      binding.gathers.push_back({in.uniforms[leaf.slot].data(), nullptr});
      continue;
    }
    const std::vector<T>& values = in.parameters[leaf.slot];
    reversed.emplace_back(values.rbegin(), values.rend());
    binding.gathers.push_back({reversed.back().data(), index.data()});
  }
  for (const LeafUse& leaf : kernel.program().columns) {
    columns.emplace_back(padded);
    for (std::size_t i = 0; i < padded; ++i) {
      columns.back()[i] = in.data[leaf.slot][std::min(i, in.count - 1)];
    }
    binding.columns.push_back({columns.back().data()});
  }
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    outputs.emplace_back(padded);
    binding.outputs.push_back(outputs.back().data());
  }
  Worker<T> worker;
  for (std::size_t first = 0; first < in.count; first += kTile) {
    binding.stream = first % (2 * kTile) != 0;
    worker.run(kernel, binding, first, std::min(kTile, in.count - first));
  }
  std::vector<std::vector<T>> result;
  for (const Column<T>& c : outputs) result.emplace_back(c.data(), c.data() + in.count);
  return result;
}

// The interpreter divides and takes roots exactly; devices may not.
bool is_library_function(Op op) {
  const bool rounded = op == Op::Div || op == Op::Reciprocal || op == Op::Sqrt || op == Op::Rsqrt;
  return (ir::info(op).ulp_f32 > 0 || ir::info(op).ulp_f64 > 0) && !rounded;
}

// True if the op table's bound holds. Composite ops may have the errors of their parts; points near
// a jump are not checked.
template <class T>
bool within_bound(const ir::Program& program, Op op, const std::array<T, 3>& x, T got) {
  if (!ir::info(op).composite) return ir::deviation<T>(op, x, got).within;
  const std::array<T, 2> parameters = {x[0], x[2]};
  const ir::RunningError error =
      ir::running_error<T>(program, {.parameters = parameters, .data = std::span(x).subspan(1, 1)});
  return !error.decided || error.nodes[program.outputs[0]].contains(got);
}

template <class T>
std::vector<std::array<T, 3>> operands_of(Op op) {
  std::vector<std::array<T, 3>> all;
  const std::vector<double>& special = special_values();
  const auto narrow = [](double v) { return static_cast<T>(v); };
  for (double a : special) {
    for (double b : special) {
      for (double c : special) {
        all.push_back({narrow(a), narrow(b), narrow(c)});
        if (ir::arity(op) < 3) break;
      }
      if (ir::arity(op) < 2) break;
    }
  }
  std::mt19937_64 random(static_cast<unsigned>(op));
  std::uniform_real_distribution<double> ordinary(-4, 4), exponent(-300, 300), ten(-30, 30);
  // Range in which the tail of the normal distribution becomes subnormal, in double and in float.
  std::uniform_real_distribution<double> tail(-38.6, -37.4), tail_of_float(-14.3, -12.8);
  for (int k = 0; k < 2000; ++k) {
    std::array<T, 3> v;
    for (T& x : v) {
      const double magnitude = sizeof(T) == 8 ? exponent(random) : exponent(random) / 8;
      switch (k % 4) {
        case 0: x = narrow(ordinary(random)); break;
        case 1: x = narrow(std::copysign(std::pow(10, magnitude), ordinary(random))); break;
        case 2: x = narrow(ten(random) * 30); break;
        default: x = narrow(sizeof(T) == 8 ? tail(random) : tail_of_float(random));
      }
    }
    all.push_back(v);
  }
  return all;
}

template <class T>
void sweep() {
  for (Op op : all_ops()) {
    ir::Graph graph;
    const ir::Id y = graph.add(op, graph.leaf(Op::Parameter, 0), graph.leaf(Op::Data, 0),
                               graph.leaf(Op::Parameter, 1));
    const ir::Program program = graph.extract(std::array{y}, {.parameters = 2, .data = 1});
    const auto operands = operands_of<T>(op);
    Instances<T> in{operands.size(), {{}, {}}, {{}}, {}};
    for (const auto& v : operands) {
      in.parameters[0].push_back(v[0]);
      in.data[0].push_back(v[1]);
      in.parameters[1].push_back(v[2]);
    }
    for (const TileOps<T>* ops : instruction_sets<T>()) {
      const std::vector<T> got = run(program, in, *ops)[0];
      int wrong = 0;
      for (std::size_t i = 0; i < operands.size() && wrong < 5; ++i) {
        // The graph sorts operands of commutative ops, which changes nothing.
        const auto [a, b, c] = operands[i];
        const T expected = ir::apply<T>(op, a, b, c);
        const bool right = within_bound<T>(program, op, operands[i], got[i]);
        if (!right) ++wrong;
        EXPECT_TRUE(right) << ops->name << " " << ir::info(op).name << "(" << a << ", " << b << ", "
                           << c << "): got " << got[i] << ", expected " << expected;
      }
    }
  }
}

template <class T>
void compare_portable_tables() {
  for (Op op : all_ops()) {
    ir::Graph graph;
    const ir::Id y = graph.add(op, graph.leaf(Op::Parameter, 0), graph.leaf(Op::Data, 0),
                               graph.leaf(Op::Parameter, 1));
    const ir::Program program = graph.extract(std::array{y}, {.parameters = 2, .data = 1});
    const auto operands = operands_of<T>(op);
    Instances<T> in{operands.size(), {{}, {}}, {{}}, {}};
    for (const auto& v : operands) {
      in.parameters[0].push_back(v[0]);
      in.data[0].push_back(v[1]);
      in.parameters[1].push_back(v[2]);
    }
    const std::vector<const TileOps<T>*> tables = tables_of<T>(Bits::portable);
    const std::vector<T> first = run(program, in, *tables[0])[0];
    for (const TileOps<T>* ops : tables) {
      const std::vector<T> got = run(program, in, *ops)[0];
      for (std::size_t i = 0; i < operands.size(); ++i)
        ASSERT_TRUE(same_bits(got[i], first[i]))
            << ops->name << " " << ir::info(op).name << "(" << operands[i][0] << ", "
            << operands[i][1] << "): got " << got[i] << ", expected " << first[i];
    }
  }
}

TEST(CpuInterpreter, PortableBitsInDouble) { compare_portable_tables<double>(); }
TEST(CpuInterpreter, PortableBitsInFloat) { compare_portable_tables<float>(); }

TEST(CpuInterpreter, EveryOpInDouble) { sweep<double>(); }
TEST(CpuInterpreter, EveryOpInFloat) { sweep<float>(); }

// Programs of exact ops: every bit is the evaluator's.
template <class T>
void random_programs_of_exact_ops() {
  std::vector<Op> exact;
  for (Op op : all_ops()) {
    if (!is_library_function(op) && !ir::info(op).composite) exact.push_back(op);
  }
  const std::size_t sizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 513};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ir::Program program = random_program(
        seed, {.operations = 10 + 5 * (seed % 10), .ops = exact, .outputs = 1 + seed % 3});
    const std::size_t n = sizes[seed % std::size(sizes)];
    const ir::LeafCounts& leaves = program.leaves;
    Instances<T> in{n, {}, {}, {}};
    in.parameters.assign(leaves.parameters, std::vector<T>(n));
    in.data.assign(leaves.data, std::vector<T>(n));
    in.uniforms.assign(leaves.uniforms, std::vector<T>(1, T(0.75)));
    for (std::size_t i = 0; i < n; ++i) {
      const Point point = random_point(seed * 1000 + i, leaves, 0.1);
      for (std::size_t k = 0; k < leaves.parameters; ++k) {
        in.parameters[k][i] = static_cast<T>(point.parameters[k]);
      }
      for (std::size_t k = 0; k < leaves.data; ++k) {
        in.data[k][i] = static_cast<T>(point.data[k]);
      }
    }
    for (const TileOps<T>* ops : instruction_sets<T>()) {
      const auto got = run(program, in, *ops);
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<T> p, d, u;
        for (const auto& column : in.parameters) p.push_back(column[i]);
        for (const auto& column : in.data) d.push_back(column[i]);
        for (const auto& column : in.uniforms) u.push_back(column[0]);
        const auto expected = ir::evaluate<T>(program, {.parameters = p, .data = d, .uniforms = u});
        for (std::size_t k = 0; k < expected.size(); ++k) {
          ASSERT_TRUE(same_bits(got[k][i], expected[k]))
              << ops->name << ", seed " << seed << ", instance " << i << ", output " << k
              << ": got " << got[k][i] << ", expected " << expected[k] << "\n"
              << ir::print(program);
        }
      }
    }
  }
}

TEST(CpuInterpreter, RandomProgramsInDouble) { random_programs_of_exact_ops<double>(); }
TEST(CpuInterpreter, RandomProgramsInFloat) { random_programs_of_exact_ops<float>(); }

TEST(CpuInterpreter, LongProgramsNeedFewRegisters) {
  ir::Graph graph;
  ir::Id y = graph.leaf(Op::Parameter, 0);
  for (int k = 0; k < 100'000; ++k) {
    y = graph.add(Op::Sub, graph.add(Op::Square, y), graph.leaf(Op::Data, 0));
  }
  const ir::Program program = graph.extract(std::array{y}, {.parameters = 1, .data = 1});
  const runtime::cpu::TileProgram lowered = runtime::cpu::lower(program);
  EXPECT_LE(lowered.registers, 2U);
  // The unknown is loaded; a square and a difference are one, and the last of them is the output.
  EXPECT_EQ(lowered.instructions.size(), 100'001U);
}

}  // namespace
}  // namespace topograd::test
