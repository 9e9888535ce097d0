// Collects products into a number and powers of factors, for readers.
#include "readable.hpp"

#include "../ir/passes/passes.hpp"
#include "../ir/passes/rewrite.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using ir::Graph;
using ir::Id;
using ir::kNone;
using ir::Node;
using ir::Op;

/// factor * Π base^exponent, with ascending bases and non-zero exponents.
struct Product {
  double factor = 1;
  std::vector<std::pair<Id, int>> powers;

  bool is_number() const { return powers.empty(); }
};

class Reader {
 public:
  explicit Reader(Graph& graph) : graph_(graph) {}

  Id rewrite(const Node& node) {
    if (ir::is_leaf(node.op)) return graph_.intern(node);
    const Id a = node.args[0], b = node.args[1];
    switch (node.op) {
      case Op::Add: return sum(a, b, 1);
      case Op::Sub: return sum(a, b, -1);
      case Op::Neg: return build(scaled(product(a), -1));
      case Op::Mul:
      case Op::Zmul: return build(times(a, b, 1));
      case Op::Div: return build(times(a, b, -1));
      case Op::Reciprocal: return build(raised(product(a), -1));
      case Op::Square: return build(raised(product(a), 2));
      case Op::Cube: return build(raised(product(a), 3));
      case Op::Rsqrt: return build({1, {{graph_.add(Op::Sqrt, a), -1}}});
      case Op::Pow: return power(a, b);
      case Op::Select:
        if (b == node.args[2]) return b;
        break;
      default: break;
    }
    return graph_.add(node.op, a, b, node.args[2]);
  }

 private:
  /// Longer products stay in parts, so that factors shared by many are not written out.
  static constexpr std::size_t kLongest = 6;
  static constexpr int kHighest = 8;

  Product product(Id id) const {
    if (id < products_.size() && products_[id]) return *products_[id];
    const Node& node = graph_[id];
    if (node.op == Op::Literal && std::isfinite(node.literal())) return {node.literal(), {}};
    return {1, {{id, 1}}};
  }

  static Product scaled(Product p, double factor) {
    p.factor *= factor;
    return p;
  }

  static Product raised(Product p, int exponent) {
    p.factor = std::pow(p.factor, exponent);
    for (auto& [base, e] : p.powers) e *= exponent;
    return p;
  }

  /// a * b^exponent.
  Product times(Id a, Id b, int exponent) const {
    Product x = product(a), y = product(b);
    if (x.powers.size() + y.powers.size() > kLongest) {
      if (x.powers.size() > 1) x = {1, {{a, 1}}};
      if (y.powers.size() > 1) y = {1, {{b, 1}}};
    }
    y = raised(std::move(y), exponent);
    x.factor *= y.factor;
    for (const auto& [base, e] : y.powers) multiply(x, base, e);
    return x;
  }

  static void multiply(Product& p, Id base, int exponent) {
    auto at = p.powers.begin();
    while (at != p.powers.end() && at->first < base) ++at;
    if (at == p.powers.end() || at->first != base) {
      p.powers.insert(at, {base, exponent});
      return;
    }
    at->second += exponent;
    if (at->second == 0) p.powers.erase(at);
  }

  Id power(Id a, Id b) {
    const Node& exponent = graph_[b];
    const double n = exponent.op == Op::Literal ? exponent.literal() : std::nan("");
    const bool whole = n == std::nearbyint(n) && std::fabs(n) <= kHighest;
    if (!whole) return graph_.add(Op::Pow, a, b);
    return n == 0 ? graph_.literal(1) : build(raised(product(a), static_cast<int>(n)));
  }

  Id sum(Id a, Id b, double sign) {
    const Product x = product(a), y = scaled(product(b), sign);
    if (y.factor == 0) return a;
    if (x.factor == 0) return build(y);
    if (x.powers == y.powers) return build({x.factor + y.factor, x.powers});
    if (y.factor < 0) return graph_.add(Op::Sub, a, build(scaled(y, -1)));
    if (x.factor < 0) return graph_.add(Op::Sub, build(y), build(scaled(x, -1)));
    return graph_.add(Op::Add, a, build(y));
  }

  /// Replaces even powers of roots by powers.
  void settle(Product& p) const {
    const std::vector<std::pair<Id, int>> before = std::exchange(p.powers, {});
    for (auto [base, exponent] : before) {
      if (graph_[base].op == Op::Sqrt && exponent % 2 == 0) {
        base = graph_[base].args[0];
        exponent /= 2;
      }
      multiply(p, base, exponent);
    }
  }

  Id build(Product p) {
    settle(p);
    if (p.factor == 0 || p.is_number()) return graph_.literal(p.factor);
    Id numerator = kNone, denominator = kNone;
    for (const auto& [base, exponent] : p.powers) {
      Id& side = exponent > 0 ? numerator : denominator;
      Id factor = raised(base, std::abs(exponent));
      if (exponent > 0 && numerator == kNone) factor = multiple(p.factor, factor);
      side = side == kNone ? factor : graph_.add(Op::Mul, side, factor);
    }
    if (numerator == kNone && p.factor != 1) numerator = graph_.literal(p.factor);
    const Id id = denominator == kNone ? numerator
                  : numerator == kNone ? graph_.add(Op::Reciprocal, denominator)
                                       : graph_.add(Op::Div, numerator, denominator);
    if (products_.size() <= id) products_.resize(id + 1);
    products_[id] = std::move(p);
    return id;
  }

  Id multiple(double number, Id id) {
    if (number == 1) return id;
    return number == -1 ? graph_.add(Op::Neg, id) : graph_.add(Op::Mul, graph_.literal(number), id);
  }

  Id raised(Id base, int exponent) {
    if (exponent == 1) return base;
    if (exponent == 2) return graph_.add(Op::Square, base);
    if (exponent == 3) return graph_.add(Op::Cube, base);
    return graph_.add(Op::Pow, base, graph_.literal(exponent));
  }

  Graph& graph_;
  std::vector<std::optional<Product>> products_;  // for the nodes that build() made
};

/// The same program with numbers before other leaves, so that products and sums begin with them.
ir::Program numbers_first(const ir::Program& program) {
  Graph graph;
  for (const Node& node : program.nodes)
    if (node.op == Op::Literal) graph.intern(node);
  const std::vector<Id> map = ir::append(graph, program);
  std::vector<Id> outputs;
  for (const Id output : program.outputs) outputs.push_back(map[output]);
  return graph.extract(outputs, program.leaves);
}

}  // namespace

ir::Program readable(const ir::Program& program) {
  std::optional<Reader> reader;
  ir::Program plain = program;
  plain.guards.clear();
  const auto rewrite = [&](Graph& graph, const Node& node) {
    if (!reader) reader.emplace(graph);
    return reader->rewrite(node);
  };
  return numbers_first(ir::rewrite(ir::remove_dead(plain), "readable", rewrite));
}

}  // namespace topograd
