// Writing programs as infix formulas.
#include "formulas.hpp"

#include "error.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace topograd {
namespace {

using ir::Id;
using ir::Node;
using ir::Op;

/// Precedence of operators, lowest first, as in parse().
enum Strength { kOr = 1, kAnd, kEqual, kOrder, kSum, kProduct, kUnary, kPower, kAtom };

struct Piece {
  std::string text;
  int strength = kAtom;
};

/// A binary or ternary operator in infix notation.
struct Infix {
  const char* mark = nullptr;
  Strength strength = kAtom;
};

Infix infix(Op op) {
  constexpr std::pair<Op, Infix> kRows[] = {
      {Op::Or, {" || ", kOr}},    {Op::And, {" && ", kAnd}},    {Op::Eq, {" == ", kEqual}},
      {Op::Ne, {" != ", kEqual}}, {Op::Lt, {" < ", kOrder}},    {Op::Le, {" <= ", kOrder}},
      {Op::Gt, {" > ", kOrder}},  {Op::Ge, {" >= ", kOrder}},   {Op::Add, {" + ", kSum}},
      {Op::Sub, {" - ", kSum}},   {Op::Mul, {" * ", kProduct}}, {Op::Div, {" / ", kProduct}}};
  for (const auto& [infix, how] : kRows)
    if (infix == op) return how;
  return {};
}

std::string in_parentheses_below(int strength, const Piece& piece) {
  return piece.strength < strength ? "(" + piece.text + ")" : piece.text;
}

class Writer {
 public:
  Writer(const ir::Program& program, const ExpressionNames& names, std::size_t first)
      : program_(program), names_(names), pieces_(program.nodes.size()), next_(first) {
    count_uses();
    for (const auto* list : {&names.parameters, &names.data, &names.uniforms})
      taken_.insert(list->begin(), list->end());
  }

  Formulas write() {
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      if (uses_[id] == 0) continue;
      const Node& node = program_.nodes[id];
      pieces_[id] = ir::is_leaf(node.op) ? leaf(node) : operation(node);
      if (must_be_named(id)) define(id);
    }
    for (const Id output : program_.outputs) out_.outputs.push_back(pieces_[output].text);
    return std::move(out_);
  }

 private:
  void count_uses() {
    uses_.assign(program_.nodes.size(), 0);
    for (const Id output : program_.outputs) ++uses_[output];
    for (std::size_t id = uses_.size(); id-- > 0;) {
      if (uses_[id] == 0) continue;
      for (const Id operand : program_.nodes[id].operands()) ++uses_[operand];
    }
  }

  bool must_be_named(Id id) const {
    constexpr std::size_t kLongestLine = 160;
    const Node& node = program_.nodes[id];
    if (ir::is_leaf(node.op)) return false;
    const bool trivial = node.op == Op::Neg && ir::is_leaf(program_.nodes[node.args[0]].op);
    return (uses_[id] > 1 && !trivial) || pieces_[id].text.size() > kLongestLine;
  }

  void define(Id id) {
    std::string name;
    do {
      name = "t" + std::to_string(next_++);
    } while (taken_.contains(name));
    out_.definitions.emplace_back(name, std::move(pieces_[id].text));
    pieces_[id] = {std::move(name), kAtom};
  }

  const std::string& name(const std::vector<std::string>& names, const Node& node) const {
    if (node.slot() < names.size()) return names[node.slot()];
    throw Error(ErrorCode::InvalidArgument, "formulas: expected a name for " +
                                                std::string(ir::info(node.op).name) + " " +
                                                std::to_string(node.slot()) + ", got " +
                                                std::to_string(names.size()) + " names");
  }

  Piece leaf(const Node& node) const {
    if (node.op == Op::Parameter) return {name(names_.parameters, node)};
    if (node.op == Op::Tangent) return {"d" + name(names_.parameters, node)};
    if (node.op == Op::Data) return {name(names_.data, node)};
    if (node.op == Op::Uniform) return {name(names_.uniforms, node)};
    if (node.op == Op::Seed) return {"s" + std::to_string(node.slot())};
    const double value = node.literal();
    return {ir::print_number(value), std::signbit(value) && !std::isnan(value) ? kUnary : kAtom};
  }

  bool is_literal(Id id) const { return program_.nodes[id].op == Op::Literal; }
  bool is_half_integer(Id id) const {
    const double twice = 2 * program_.nodes[id].literal();
    return is_literal(id) && twice == std::nearbyint(twice);
  }

  Piece call(const Node& node) const {
    std::string text = std::string(ir::info(node.op).name) + "(";
    for (std::size_t k = 0; k < node.operands().size(); ++k)
      text += (k > 0 ? ", " : "") + pieces_[node.args[k]].text;
    return {text + ")"};
  }

  Piece power(const Node& node, const std::string& exponent) const {
    return {in_parentheses_below(kAtom, pieces_[node.args[0]]) + "^" + exponent, kPower};
  }

  Piece prefix(const char* mark, const Piece& a) const {
    return {mark + in_parentheses_below(kUnary, a), kUnary};
  }

  // Writes the infix form, or a call if parse() would read the infix form differently.
  Piece operation(const Node& node) const {
    const Piece& a = pieces_[node.args[0]];
    if (node.op == Op::Square) return power(node, "2");
    if (node.op == Op::Cube) return power(node, "3");
    if (node.op == Op::Pow && !is_half_integer(node.args[1]))
      return power(node, in_parentheses_below(kUnary, pieces_[node.args[1]]));
    if (node.op == Op::Neg && !is_literal(node.args[0])) return prefix("-", a);
    if (node.op == Op::Not) return prefix("!", a);
    if (node.op == Op::Reciprocal)
      return {"1 / " + in_parentheses_below(kProduct + 1, a), kProduct};
    if (node.op == Op::Div && is_literal(node.args[0]) &&
        program_.nodes[node.args[0]].literal() == 1)
      return call(node);
    const Infix between = infix(node.op);
    if (between.mark == nullptr) return call(node);
    // A product whose first operand is a product needs no parentheses.
    const Piece* first = &a;
    const Piece* second = &pieces_[node.args[1]];
    if (node.op == Op::Mul && second->strength == kProduct && a.strength > kProduct &&
        !is_literal(node.args[0]))
      std::swap(first, second);
    return {in_parentheses_below(between.strength, *first) + between.mark +
                in_parentheses_below(between.strength + 1, *second),
            between.strength};
  }

  const ir::Program& program_;
  const ExpressionNames& names_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> uses_;
  std::set<std::string> taken_;
  std::size_t next_;
  Formulas out_;
};

}  // namespace

std::string Formulas::text() const {
  std::string out;
  for (const auto& [name, formula] : definitions) out += name + " = " + formula + ";\n";
  for (const std::string& output : outputs) out += output + ";\n";
  return out;
}

Formulas formulas(const ir::Program& program, const ExpressionNames& names, std::size_t first) {
  return Writer(program, names, first).write();
}

}  // namespace topograd
