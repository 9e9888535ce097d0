// Parser of text expressions: a stack of operators and calls allows any depth.
#include "expression.hpp"

#include "../../ir/error.hpp"
#include "../../ir/graph.hpp"
#include "expression_lexer.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <optional>
#include <unordered_map>

namespace topograd {
namespace {

using expression::Lexer;
using expression::Token;
using ir::Id;
using ir::Op;

/// An operator between two operands.
struct BinaryOperator {
  std::string_view mark;
  int strength;
  Op op;
};
constexpr int kUnaryStrength = 7;
constexpr std::array kBinary = {
    BinaryOperator{"||", 1, Op::Or}, BinaryOperator{"&&", 2, Op::And},
    BinaryOperator{"==", 3, Op::Eq}, BinaryOperator{"!=", 3, Op::Ne},
    BinaryOperator{"<", 4, Op::Lt},  BinaryOperator{"<=", 4, Op::Le},
    BinaryOperator{">", 4, Op::Gt},  BinaryOperator{">=", 4, Op::Ge},
    BinaryOperator{"+", 5, Op::Add}, BinaryOperator{"-", 5, Op::Sub},
    BinaryOperator{"*", 6, Op::Mul}, BinaryOperator{"/", 6, Op::Div},
    BinaryOperator{"^", 8, Op::Pow},
};

const BinaryOperator* find_binary(const Token& token) {
  if (token.kind != Token::Kind::mark) return nullptr;
  for (const BinaryOperator& row : kBinary) {
    if (row.mark == token.text) return &row;
  }
  return nullptr;
}

/// An operator, open parenthesis or incomplete call that waits for operands.
struct Pending {
  enum class Kind { binary, minus, plus, negation, parenthesis, call } kind;
  const BinaryOperator* binary = nullptr;
  Op op = Op::Neg;           ///< call
  std::size_t operands = 0;  ///< call: number of operands below its arguments
  std::size_t at = 0;        ///< call: position of its name

  bool waits_for_close() const { return kind == Kind::parenthesis || kind == Kind::call; }
  int strength() const { return kind == Kind::binary ? binary->strength : kUnaryStrength; }
};

struct Operand {
  Id id = ir::kNone;
  bool number = false;  ///< a number as written, without sign or parentheses
};

constexpr int kMaxWrittenExponent = 64;

// base^exponent for 1 <= exponent, by binary powers; the same nodes as pow(Value, int).
Id positive_power(ir::Graph& graph, Id base, int exponent) {
  if (exponent == 1) return base;
  if (exponent == 2) return graph.add(Op::Square, base);
  if (exponent == 3) return graph.add(Op::Cube, base);
  const Id half = graph.add(Op::Square, positive_power(graph, base, exponent / 2));
  return exponent % 2 == 0 ? half : graph.add(Op::Mul, half, base);
}

// The same nodes as pow(Value, double); other exponents than half-integers become literals.
Id power(ir::Graph& graph, Id base, Id exponent) {
  const ir::Node node = graph[exponent];
  const double p = node.op == Op::Literal ? node.literal() : 0.1;
  if (!(std::abs(p) <= kMaxWrittenExponent) || 2 * p != std::nearbyint(2 * p))
    return graph.add(Op::Pow, base, exponent);
  if (p == 0) return graph.literal(1);
  const int whole = static_cast<int>(std::abs(p));
  Id result = whole > 0 ? positive_power(graph, base, whole) : ir::kNone;
  if (whole != std::abs(p)) {
    const Id root = graph.add(Op::Sqrt, base);
    result = whole > 0 ? graph.add(Op::Mul, result, root) : root;
  }
  return p > 0 ? result : graph.add(Op::Reciprocal, result);
}

class Parser {
 public:
  Parser(std::string_view text, const ExpressionNames& names) : lexer_(text) {
    // Leaves come first, in the order of their slots, independent of the text.
    counts_.parameters = add_names(Op::Parameter, names.parameters);
    counts_.data = add_names(Op::Data, names.data);
    counts_.uniforms = add_names(Op::Uniform, names.uniforms);
  }

  ir::Program parse() {
    do {
      if (lexer_.peek().kind == Token::Kind::end && !rows_.empty()) break;
      statement();
    } while (lexer_.accept(";"));
    if (lexer_.peek().kind != Token::Kind::end)
      lexer_.fail_expected("an operator, ';' or the end of the text", lexer_.peek());
    if (rows_.empty()) lexer_.fail_expected("an expression", lexer_.peek());
    return graph_.extract(rows_, counts_);
  }

 private:
  std::uint32_t add_names(Op op, const std::vector<std::string>& names) {
    for (std::uint32_t slot = 0; slot < names.size(); ++slot) {
      const std::string& name = names[slot];
      const char* wrong = !expression::is_name(name) || name == "inf" || name == "nan"
                              ? " is no name (a letter, then letters, digits and underscores; not "
                                "inf or nan)"
                          : names_.emplace(name, graph_.leaf(op, slot)).second ? nullptr
                                                                               : " is there twice";
      if (wrong != nullptr)
        throw Error(ErrorCode::InvalidArgument, "names: \"" + name + "\"" + wrong);
      listed_ += (listed_.empty() ? "" : ", ") + name;
    }
    return static_cast<std::uint32_t>(names.size());
  }

  void statement() {
    if (lexer_.peek().kind == Token::Kind::name) {
      const Token first = lexer_.take();
      if (!lexer_.accept("=")) return rows_.push_back(expression(first));
      if (names_.contains(first.text))
        lexer_.fail(first.at, "the name '" + first.text + "' is taken");
      if (first.text == "inf" || first.text == "nan")
        lexer_.fail(first.at, "expected a name other than inf and nan");
      names_.emplace(first.text, expression(lexer_.take()));
      return;
    }
    rows_.push_back(expression(lexer_.take()));
  }

  // `token` is the first token of the expression; the token after the last stays in the lexer.
  Id expression(Token token) {
    for (;;) {
      if (begin_operand(token)) {
        while (lexer_.peek().is(")") && close()) {
        }
        const Token& after = lexer_.peek();
        if (const BinaryOperator* binary = find_binary(after)) {
          reduce(binary);
          pending_.push_back({.kind = Pending::Kind::binary, .binary = binary});
        } else if (!after.is(",") || !end_argument()) {
          break;
        }
        lexer_.take();
      }
      token = lexer_.take();
    }
    reduce(nullptr);
    if (!pending_.empty())
      lexer_.fail_expected(pending_.back().kind == Pending::Kind::call ? "an operator, ',' or ')'"
                                                                       : "an operator or ')'",
                           lexer_.peek());
    const Id result = operands_.back().id;
    operands_.clear();
    return result;
  }

  // Consumes `token` as the beginning of an operand; returns true if the operand is complete.
  bool begin_operand(const Token& token) {
    if (token.kind == Token::Kind::number) {
      operands_.push_back({graph_.literal(token.number), true});
      return true;
    }
    if (token.kind == Token::Kind::name) return begin_name(token);
    using Kind = Pending::Kind;
    const std::optional<Kind> kind = token.is("(")   ? std::optional(Kind::parenthesis)
                                     : token.is("-") ? std::optional(Kind::minus)
                                     : token.is("+") ? std::optional(Kind::plus)
                                     : token.is("!") ? std::optional(Kind::negation)
                                                     : std::nullopt;
    if (!kind) lexer_.fail_expected("a number, a name or '('", token);
    pending_.push_back({.kind = *kind});
    return false;
  }

  bool begin_name(const Token& token) {
    if (lexer_.accept("(")) {
      const std::optional<Op> op = ir::find_op(token.text);
      if (!op || ir::is_leaf(*op)) lexer_.fail_expected("the name of a function before '('", token);
      pending_.push_back(
          {.kind = Pending::Kind::call, .op = *op, .operands = operands_.size(), .at = token.at});
      if (lexer_.peek().is(")")) check_arguments(pending_.back(), 0);
      return false;
    }
    operands_.push_back({named(token), false});
    return true;
  }

  Id named(const Token& token) {
    if (const auto found = names_.find(token.text); found != names_.end()) return found->second;
    if (token.text == "pi") return graph_.literal(std::numbers::pi);
    if (token.text == "inf") return graph_.literal(std::numeric_limits<double>::infinity());
    if (token.text == "nan") return graph_.literal(std::numeric_limits<double>::quiet_NaN());
    constexpr std::size_t kLongest = 60;
    const bool all = listed_.size() <= kLongest;
    const std::string known = all ? listed_ : listed_.substr(0, kLongest) + "...";
    lexer_.fail_expected(
        known.empty() ? "a number or a function (there are no names)" : "one of the names " + known,
        token);
  }

  // Applies the operators that bind more strongly than `next`, back to the open parenthesis; all of
  // them if `next` is null.
  void reduce(const BinaryOperator* next) {
    while (!pending_.empty() && !pending_.back().waits_for_close()) {
      const Pending& top = pending_.back();
      const bool right_associative = next != nullptr && next->op == Op::Pow;
      if (next != nullptr && top.strength() < next->strength + (right_associative ? 1 : 0)) break;
      top.kind == Pending::Kind::binary ? apply_binary(top.binary->op) : apply_unary(top.kind);
      pending_.pop_back();
    }
  }

  void apply_unary(Pending::Kind kind) {
    Operand& a = operands_.back();
    if (kind == Pending::Kind::negation) {
      a = {graph_.add(Op::Not, a.id), false};
    } else if (kind == Pending::Kind::minus) {
      const ir::Node node = graph_[a.id];
      a = {a.number ? graph_.literal(-node.literal()) : graph_.add(Op::Neg, a.id), false};
    }
  }

  void apply_binary(Op op) {
    const Operand b = operands_.back();
    operands_.pop_back();
    Operand& a = operands_.back();
    const bool reciprocal = op == Op::Div && a.number && graph_[a.id].literal() == 1;
    const Id id = op == Op::Pow ? power(graph_, a.id, b.id)
                  : reciprocal  ? graph_.add(Op::Reciprocal, b.id)
                                : graph_.add(op, a.id, b.id);
    a = {id, false};
  }

  void check_arguments(const Pending& call, std::size_t count) const {
    const auto expected = static_cast<std::size_t>(ir::arity(call.op));
    if (count == expected) return;
    lexer_.fail(call.at, "expected " + std::to_string(expected) +
                             (expected == 1 ? " argument of " : " arguments of ") +
                             std::string(ir::info(call.op).name) + ", got " +
                             std::to_string(count));
  }

  // Called at ")": closes the innermost parenthesis or call; returns false if none is open.
  bool close() {
    reduce(nullptr);
    if (pending_.empty()) return false;
    const Pending top = pending_.back();
    pending_.pop_back();
    if (top.kind == Pending::Kind::call) {
      check_arguments(top, operands_.size() - top.operands);
      std::array<Id, 3> args = {0, 0, 0};
      for (std::size_t k = top.operands; k < operands_.size(); ++k)
        args[k - top.operands] = operands_[k].id;
      operands_.resize(top.operands);
      operands_.push_back({graph_.add(top.op, args[0], args[1], args[2]), false});
    } else {
      operands_.back().number = false;
    }
    lexer_.take();
    return true;
  }

  // Called at ",": returns true if it ends an argument of a call.
  bool end_argument() {
    reduce(nullptr);
    return !pending_.empty() && pending_.back().kind == Pending::Kind::call;
  }

  Lexer lexer_;
  ir::Graph graph_;
  ir::LeafCounts counts_;
  std::unordered_map<std::string, Id> names_;
  std::string listed_;
  std::vector<Id> rows_;
  std::vector<Pending> pending_;
  std::vector<Operand> operands_;
};

}  // namespace

ir::Program parse(std::string_view text, const ExpressionNames& names) {
  return Parser(text, names).parse();
}

}  // namespace topograd
