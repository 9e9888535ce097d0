// Parser of expressions: stacks allow any depth; and conversion of programs to Values.
#include "expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"

namespace topograd {
namespace {

using ir::Id;
using ir::Op;

/// A token of an expression; `text` refers to the expression, except for names with coordinates.
struct Token {
  enum class Kind { number, name, mark, end } kind = Kind::end;
  std::string text;  ///< names: a.x as a[0]
  std::size_t at = 0;
  double number = 0;

  bool is(std::string_view mark) const { return kind == Kind::mark && text == mark; }
};

/// Splits an expression into tokens, with one token of look-ahead.
class Lexer {
 public:
  /// The text must outlive the lexer. Throws Error{Parse} as take() does.
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return next_; }
  /// Returns the token and advances. Throws Error{Parse} if no valid token follows.
  Token take();
  /// Consumes the next token if it is this mark.
  bool accept(std::string_view mark);

  /// Throws Error{Parse} with line and column of byte `at`, then the line with a caret below.
  [[noreturn]] void fail(std::size_t at, const std::string& message) const;
  /// Throws Error{Parse}: expected `what`, got the token.
  [[noreturn]] void fail_expected(const std::string& what, const Token& got) const;

 private:
  void advance();
  void number();
  void name();
  std::string coordinate();

  std::string_view text_;
  std::size_t at_ = 0;
  Token next_;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
// True for the first byte of a UTF-8 character.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

constexpr std::array<std::string_view, 20> kMarks = {"==", "!=", "<=", ">=", "&&", "||", "+",
                                                     "-",  "*",  "/",  "^",  "(",  ")",  ",",
                                                     ";",  "=",  "<",  ">",  "!",  ""};

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

// The line around byte `at`, shortened for a terminal, with a caret below that byte.
std::string show_position(std::string_view line, std::size_t at) {
  constexpr std::size_t kBefore = 60, kAfter = 20;
  std::size_t first = at > kBefore ? at - kBefore : 0;
  std::size_t last = std::min(line.size(), at + kAfter);
  while (first > 0 && !begins_character(line[first])) --first;
  while (last < line.size() && !begins_character(line[last])) ++last;
  const std::string shown = printable(line.substr(first, last - first));
  return "\n  " + shown + "\n  " +
         std::string(count_characters(line.substr(first, at - first)), ' ') + "^";
}

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  constexpr std::size_t kLongest = 40;
  return "'" + token.text.substr(0, kLongest) + (token.text.size() > kLongest ? "...'" : "'");
}

Token Lexer::take() {
  Token token = std::move(next_);
  advance();
  return token;
}

bool Lexer::accept(std::string_view mark) {
  if (!next_.is(mark)) return false;
  advance();
  return true;
}

void Lexer::advance() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  next_ = {.kind = Token::Kind::end, .text = {}, .at = at_, .number = 0};
  if (at_ == text_.size()) return;
  const char c = text_[at_];
  if (is_letter(c)) return name();
  if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
    return number();
  const auto* mark = std::ranges::find_if(
      kMarks, [&](std::string_view m) { return text_.substr(at_).starts_with(m); });
  if (mark->empty()) {
    std::size_t last = at_ + 1;
    while (last < text_.size() && !begins_character(text_[last])) ++last;
    fail(at_, "expected a number, a name or an operator, got '" +
                  printable(text_.substr(at_, last - at_)) + "'");
  }
  next_.kind = Token::Kind::mark;
  next_.text = *mark;
  at_ += mark->size();
}

void Lexer::number() {
  const char* first = text_.data() + at_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), next_.number);
  next_.kind = Token::Kind::number;
  next_.text = std::string(first, end);
  if (error != std::errc{})
    fail(at_, "expected a number that a double can hold, got " + shown(next_));
  at_ += next_.text.size();
}

void Lexer::name() {
  std::size_t last = at_;
  while (last < text_.size() && (is_letter(text_[last]) || is_digit(text_[last]))) ++last;
  next_.kind = Token::Kind::name;
  next_.text = text_.substr(at_, last - at_);
  at_ = last;
  next_.text += coordinate();
}

// The coordinate after a name, "[3]" or ".y", in the form "[3]".
std::string Lexer::coordinate() {
  if (at_ == text_.size()) return {};
  if (text_[at_] == '.') {
    constexpr std::string_view kLetters = "xyzw";
    const std::size_t k = at_ + 1 < text_.size() ? kLetters.find(text_[at_ + 1]) : kLetters.npos;
    const bool ends =
        at_ + 2 >= text_.size() || !(is_letter(text_[at_ + 2]) || is_digit(text_[at_ + 2]));
    if (k == kLetters.npos || !ends) fail(at_, "expected a coordinate .x, .y, .z or .w");
    at_ += 2;
    return "[" + std::to_string(k) + "]";
  }
  if (text_[at_] != '[') return {};
  std::size_t last = at_ + 1;
  while (last < text_.size() && is_digit(text_[last])) ++last;
  if (last == at_ + 1 || last == text_.size() || text_[last] != ']')
    fail(at_, "expected a coordinate [0], [1], ...");
  std::string out(text_.substr(at_, last + 1 - at_));
  at_ = last + 1;
  return out;
}

void Lexer::fail(std::size_t at, const std::string& message) const {
  const std::string_view before = text_.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::size_t line_end = std::min(text_.find('\n', at), text_.size());
  throw Error(ErrorCode::Parse,
              "expression: line " + std::to_string(std::ranges::count(before, '\n') + 1) +
                  ", column " + std::to_string(count_characters(before.substr(line_start)) + 1) +
                  ": " + message +
                  show_position(text_.substr(line_start, line_end - line_start), at - line_start));
}

void Lexer::fail_expected(const std::string& what, const Token& got) const {
  fail(got.at, "expected " + what + ", got " + shown(got));
}

/// Names of numbers.
bool is_number(std::string_view text) { return text == "pi" || text == "inf" || text == "nan"; }

/// True if Lexer reads `text` as one name.
bool is_name(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  try {
    Lexer lexer(text);
    const Token token = lexer.take();
    return lexer.peek().kind == Token::Kind::end && token.text == text;
  } catch (const Error&) {
    return false;
  }
}

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
      const char* wrong = !is_name(name) || is_number(name)
                              ? " is no name (a letter, then letters, digits and underscores; not "
                                "pi, inf or nan)"
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
      if (first.text == "inf" || first.text == "nan")  // NIST's models set pi
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

void check_count(const char* kind, std::size_t expected, std::size_t got) {
  if (got >= expected) return;
  throw Error(ErrorCode::Shape, std::string("to_values: expected ") + std::to_string(expected) +
                                    " " + kind + ", got " + std::to_string(got));
}

Value leaf(const ir::Node& node, const ExpressionOperands& operands) {
  if (node.op == Op::Parameter) return operands.parameters[node.slot()];
  if (node.op == Op::Data) return operands.data[node.slot()];
  if (node.op == Op::Uniform) return operands.uniforms[node.slot()];
  if (node.op == Op::Literal) return literal(node.literal());
  throw Error(ErrorCode::Unsupported,
              "to_values: a residual cannot read " + std::string(ir::info(node.op).name));
}

}  // namespace

ir::Program parse(std::string_view text, const ExpressionNames& names) {
  return Parser(text, names).parse();
}

std::vector<Value> to_values(const ir::Program& program, const ExpressionOperands& operands) {
  check_count("parameters", program.leaves.parameters, operands.parameters.size());
  check_count("data", program.leaves.data, operands.data.size());
  check_count("uniforms", program.leaves.uniforms, operands.uniforms.size());
  std::vector<Value> values;
  values.reserve(program.nodes.size());
  for (const ir::Node& node : program.nodes) {
    const auto operand = [&](std::size_t k) { return values[node.args[k]]; };
    if (ir::is_leaf(node.op)) {
      values.push_back(leaf(node, operands));
    } else if (ir::arity(node.op) == 1) {
      values.push_back(Value::make(node.op, operand(0)));
    } else if (ir::arity(node.op) == 2) {
      values.push_back(Value::make(node.op, operand(0), operand(1)));
    } else {
      values.push_back(Value::make(node.op, operand(0), operand(1), operand(2)));
    }
  }
  std::vector<Value> rows;
  for (const ir::Id output : program.outputs) rows.push_back(values[output]);
  return rows;
}

}  // namespace topograd
