// Generation, inputs and shrinking of random programs.
#include "random_program.hpp"

#include "../program.hpp"
#include "error_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace topograd::ir {
namespace {

class Maker {
 public:
  Maker(std::uint64_t seed, const RandomProgramOptions& options)
      : random_(seed), options_(options), ops_(options.ops.empty() ? all_ops() : options.ops) {
    const LeafCounts& n = options.leaves;
    const auto all = [&](Op op, std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) leaves_.push_back(graph_.leaf(op, k));
    };
    all(Op::Parameter, n.parameters);
    all(Op::Data, n.data);
    all(Op::Uniform, n.uniforms);
    all(Op::Seed, n.seeds);
  }

  Program make() {
    for (std::size_t k = 0; k < options_.operations; ++k) note(operation());
    join_sinks();
    std::vector<Id> outputs(sinks_.end() - std::min(sinks_.size(), options_.outputs), sinks_.end());
    if (outputs.empty()) outputs.push_back(leaf());
    return graph_.extract(outputs, options_.leaves, guards());
  }

 private:
  Id leaf() {
    static const auto& kLiterals =
        *new std::vector<double>{0, -0.0, 1, -1, 2, 0.5, 3, -0.25, 0.1, 1e-3};
    if (leaves_.empty() || random_.uniform() < options_.literals) {
      return graph_.literal(random_.pick(kLiterals));
    }
    return random_.pick(leaves_);
  }

  Id operation() {
    constexpr int kMostDraws = 12;
    for (int draw = 1;; ++draw) {
      const Op op = random_.pick(ops_);
      const std::vector<Id> sinks = sinks_;
      Id args[3] = {};
      for (int a = 0; a < arity(op); ++a) args[a] = operand();
      const Id id = graph_.add(op, args[0], args[1], args[2]);
      if (options_.ordinary_at == nullptr || draw == kMostDraws || ordinary(value(id))) return id;
      sinks_ = sinks;
    }
  }

  static bool ordinary(const Carried& carried) {
    constexpr long double kLeast = 1e-3L, kMost = 100;
    const long double size = std::fabs(carried.enclosure.value);
    return carried.decided && carried.enclosure.known() &&
           (size == 0 || (size >= kLeast && size <= kMost));
  }

  // The enclosure of a node; rejected draws have one too, until extract() drops them at the end.
  Carried value(Id id) {
    while (values_.size() <= id) {
      const Node& node = graph_[static_cast<Id>(values_.size())];
      const Carried carried = is_leaf(node.op)
                                  ? Carried{{static_cast<float>(leaf_value(node)), 0}, true}
                                  : carry<float>(node, values_);
      values_.push_back(carried.enclosure);
      decided_.push_back(carried.decided);
    }
    return {values_[id], decided_[id]};
  }

  double leaf_value(const Node& node) const {
    const auto* const space = leaf_space(node.op, *options_.ordinary_at);
    return space != nullptr ? (*space)[node.slot()] : node.literal();
  }

  Id operand() {
    const double kind = random_.uniform();
    if (!sinks_.empty() && kind < 0.6) {
      const std::size_t at = random_.below(sinks_.size());
      const Id id = sinks_[at];
      sinks_.erase(sinks_.begin() + static_cast<std::ptrdiff_t>(at));
      return id;
    }
    if (!options_.tree && !made_.empty() && kind < 0.75) return random_.pick(made_);
    return leaf();
  }

  void note(Id id) {
    if (std::find(made_.begin(), made_.end(), id) != made_.end()) return;
    made_.push_back(id);
    sinks_.push_back(id);
  }

  // Adds nodes that nobody uses to sums, so that no operation is lost.
  void join_sinks() {
    if (std::find(ops_.begin(), ops_.end(), Op::Add) == ops_.end()) return;
    const std::size_t wanted = std::max<std::size_t>(options_.outputs, 1);
    while (sinks_.size() > wanted) {
      const Id a = sinks_[0], b = sinks_[1];
      sinks_.erase(sinks_.begin(), sinks_.begin() + 2);
      note(graph_.add(Op::Add, a, b));
    }
  }

  std::vector<Guard> guards() {
    std::vector<Guard> guards;
    for (std::size_t k = 0; k < options_.guards && !made_.empty(); ++k) {
      guards.push_back({random_.pick(made_), random_.below(2) == 1});
    }
    return guards;
  }

  Random random_;
  const RandomProgramOptions& options_;
  std::vector<Op> ops_;
  Graph graph_;
  std::vector<Id> leaves_, made_, sinks_;
  std::vector<Enclosure> values_;  // by node, at the ordinary point
  std::vector<bool> decided_;      // by node
};

// The program with node `id` replaced by the earlier node `by`, without dead nodes.
Program without(const Program& program, Id id, Id by) {
  Graph graph;
  std::vector<Id> map(program.nodes.size());
  for (Id k = 0; k < map.size(); ++k)
    map[k] = k == id ? map[by] : graph.copy(program.nodes[k], map);
  std::vector<Id> outputs;
  for (Id output : program.outputs) outputs.push_back(map[output]);
  std::vector<Guard> guards;
  for (const Guard& g : program.guards) guards.push_back({map[g.condition], g.expected});
  return graph.extract(outputs, program.leaves, guards);
}

// Smaller programs to try, the most promising first.
std::vector<Program> candidates(const Program& program) {
  std::vector<Program> all;
  const auto none = static_cast<Id>(program.nodes.size());
  for (std::size_t k = 0; k < program.outputs.size() && program.outputs.size() > 1; ++k) {
    Program smaller = program;
    smaller.outputs.erase(smaller.outputs.begin() + static_cast<std::ptrdiff_t>(k));
    all.push_back(without(smaller, none, 0));
  }
  for (std::size_t k = 0; k < program.guards.size(); ++k) {
    Program smaller = program;
    smaller.guards.erase(smaller.guards.begin() + static_cast<std::ptrdiff_t>(k));
    all.push_back(without(smaller, none, 0));
  }
  for (Id id = none; id-- > 0;) {
    for (Id operand : program.nodes[id].operands()) all.push_back(without(program, id, operand));
  }
  return all;
}

}  // namespace

Program random_program(std::uint64_t seed, const RandomProgramOptions& options) {
  return Maker(seed, options).make();
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (const OpInfo& row : kOps) {
    if (!row.leaf) ops.push_back(row.op);
  }
  return ops;
}

std::vector<Op> smooth_ops() {
  return {Op::Add,   Op::Sub,   Op::Mul,   Op::Div,   Op::Neg,   Op::Fma,   Op::Square,
          Op::Cube,  Op::Sqrt,  Op::Exp,   Op::Log,   Op::Sin,   Op::Cos,   Op::Tan,
          Op::Asin,  Op::Acos,  Op::Atan,  Op::Atan2, Op::Pow,   Op::Rsqrt, Op::Cbrt,
          Op::Exp2,  Op::Expm1, Op::Log2,  Op::Sinh,  Op::Cosh,  Op::Tanh,  Op::Asinh,
          Op::Acosh, Op::Erf,   Op::Atanh, Op::Log1p, Op::Log10, Op::Hypot, Op::Reciprocal};
}

Point random_point(std::uint64_t seed, const LeafCounts& leaves, double special) {
  Random random(seed);
  const auto numbers = [&](std::uint32_t count) {
    std::vector<double> out(count);
    for (double& x : out) {
      x = random.uniform() < special ? random.pick(special_values()) : 4 * random.uniform() - 2;
    }
    return out;
  };
  Point point;
  point.parameters = numbers(leaves.parameters);
  point.data = numbers(leaves.data);
  point.uniforms = numbers(leaves.uniforms);
  point.tangents = numbers(leaves.parameters);
  point.seeds = numbers(leaves.seeds);
  return point;
}

const std::vector<double>& special_values() {
  static const auto& kValues = *new std::vector<double>([] {
    using Limits = std::numeric_limits<double>;
    std::vector<double> all = {0,
                               1,
                               2,
                               0.5,
                               1.5,
                               2.5,
                               3,
                               1e-3,
                               1e30,
                               1e-30,
                               1e300,
                               1e-300,
                               1e-40,
                               1e10,
                               0.1,
                               0x1p53,
                               0x1p-126,
                               Limits::infinity(),
                               Limits::denorm_min(),
                               Limits::max(),
                               Limits::min(),
                               3.4028234663852886e38,
                               1.4012984643248171e-45};
    for (std::size_t k = 0, n = all.size(); k < n; ++k) all.push_back(-all[k]);
    all.push_back(Limits::quiet_NaN());
    return all;
  }());
  return kValues;
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    const auto size = [](const Program& p) {
      return p.nodes.size() + p.outputs.size() + p.guards.size();
    };
    for (Program& candidate : candidates(program)) {
      if (size(candidate) >= size(program) || !fails(candidate)) continue;
      program = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return program;
}

}  // namespace topograd::ir
