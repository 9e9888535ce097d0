// The text form of programs, printed, also as graphs, and parsed; and infix formulas.
#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "error.hpp"
#include "verify.hpp"

namespace topograd::ir {
namespace {

std::string name_of(Id id) { return '%' + std::to_string(id); }

// Text after the op's name: a slot, a number or operands.
std::string arguments(const Node& node) {
  if (node.op == Op::Literal) return print_number(node.literal());
  if (is_leaf(node.op)) return std::to_string(node.slot());
  std::string text;
  for (Id operand : node.operands()) {
    if (!text.empty()) text += ", ";
    text += name_of(operand);
  }
  return text;
}

std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

// Number of an operand; empty if operands may be exchanged.
std::string edge_label(const Node& node, std::size_t position) {
  const bool told_apart = arity(node.op) > 1 && !(info(node.op).commutes && position < 2);
  return told_apart ? " [label=\"" + std::to_string(position) + "\"]" : "";
}

void print_dot_node(std::string& out, Id id, const Node& node) {
  const std::string self = 'n' + std::to_string(id);
  std::string label = node.op == Op::Literal ? arguments(node) : std::string(info(node.op).name);
  if (is_leaf(node.op) && node.op != Op::Literal) label += ' ' + arguments(node);
  out += "  " + self + " [label=" + dot_quoted(label) + "];\n";
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    out += "  n" + std::to_string(node.args[k]) + " -> " + self + edge_label(node, k) + ";\n";
  }
}

/// A word, one of the marks { } = , or the end of the text.
struct Token {
  std::string_view text;
  std::size_t line = 1, column = 1;

  bool at_end() const { return text.empty(); }
};

/// Splits a text into tokens; skips white space and comments from # to the end of the line.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  /// The token that take() returns next.
  const Token& peek() const { return next_; }
  Token take();
  /// Takes the next token if it is `text`.
  bool accept(std::string_view text);
  /// Takes the next token, which must be `text`; throws Error{Parse}.
  Token expect(std::string_view text);

 private:
  void advance();
  void skip_space();

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1, line_start_ = 0;
  Token next_;
};

/// Throws Error{Parse}: "parse: line 3, column 8: " and the message.
[[noreturn]] void fail_at(const Token& token, const std::string& message);
/// Throws Error{Parse}: expected `what`, got the token.
[[noreturn]] void fail_expected(const Token& token, const std::string& what);

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Program parse() {
    parse_counts();
    while (lexer_.peek().text.starts_with('%')) parse_node();
    while (lexer_.accept("guard")) parse_guard();
    parse_return();
    lexer_.expect("}");
    if (!lexer_.peek().at_end()) fail_expected(lexer_.peek(), "the end of the text");
    if (const auto wrong = find_violation(program_))
      fail_at(definitions_[wrong->node], wrong->message);
    return std::move(program_);
  }

 private:
  template <class T>
  T number(const Token& token, const char* what) {
    T value{};
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end) fail_expected(token, what);
    return value;
  }

  void parse_counts() {
    lexer_.expect("program");
    const struct {
      const char* name;
      std::uint32_t* count;
    } fields[] = {{"parameters", &program_.leaves.parameters},
                  {"data", &program_.leaves.data},
                  {"uniforms", &program_.leaves.uniforms},
                  {"seeds", &program_.leaves.seeds}};
    for (const auto& field : fields) {
      if (!lexer_.accept(field.name)) continue;
      lexer_.expect("=");
      *field.count = number<std::uint32_t>(lexer_.take(), "a count");
    }
    if (lexer_.peek().text != "{") fail_expected(lexer_.peek(), "a leaf count or '{'");
    lexer_.take();
  }

  Id parse_operand() {
    const Token token = lexer_.take();
    if (!token.text.starts_with('%')) fail_expected(token, "an operand");
    const auto found = names_.find(token.text);
    if (found == names_.end()) {
      fail_at(token, std::string(token.text) + " is not defined before this place");
    }
    return found->second;
  }

  void parse_node() {
    const Token name = lexer_.take();
    lexer_.expect("=");
    const Token op_name = lexer_.take();
    const std::optional<Op> op = find_op(op_name.text);
    if (!op) fail_expected(op_name, "an op");
    program_.nodes.push_back(parse_arguments(*op, op_name));
    definitions_.push_back(name);
    const auto id = static_cast<Id>(definitions_.size() - 1);
    if (!names_.emplace(name.text, id).second) {
      fail_at(name, std::string(name.text) + " is defined a second time");
    }
  }

  Node parse_arguments(Op op, const Token& op_name) {
    if (op == Op::Literal) return make_literal(number<double>(lexer_.take(), "a number"));
    if (is_leaf(op)) return make_leaf(op, number<std::uint32_t>(lexer_.take(), "a slot"));
    Id args[3] = {};
    int count = 0;
    if (lexer_.peek().text.starts_with('%')) {
      do {
        const Id operand = parse_operand();
        if (count < 3) args[count] = operand;
        ++count;
      } while (lexer_.accept(","));
    }
    if (count != arity(op)) {
      fail_at(op_name, std::string(info(op).name) + " takes " + std::to_string(arity(op)) +
                           (arity(op) == 1 ? " operand, got " : " operands, got ") +
                           std::to_string(count));
    }
    return make_node(op, args[0], args[1], args[2]);
  }

  void parse_guard() {
    const Id condition = parse_operand();
    const Token expected = lexer_.take();
    if (expected.text != "true" && expected.text != "false") {
      fail_expected(expected, "true or false");
    }
    program_.guards.push_back({condition, expected.text == "true"});
  }

  void parse_return() {
    if (!lexer_.accept("return")) fail_expected(lexer_.peek(), "a node, 'guard' or 'return'");
    if (lexer_.peek().text == "}") return;
    do {
      program_.outputs.push_back(parse_operand());
    } while (lexer_.accept(","));
  }

  Lexer lexer_;
  Program program_;
  std::unordered_map<std::string_view, Id> names_;
  std::vector<Token> definitions_;  // where each node is defined
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_mark(char c) { return c == '{' || c == '}' || c == '=' || c == ','; }
bool is_word(char c) { return !is_space(c) && !is_mark(c) && c != '#'; }

// A token for messages: short and printable for any input.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string out;
  for (char c : text.substr(0, kLongest)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return "'" + out + (text.size() > kLongest ? "...'" : "'");
}

void Lexer::skip_space() {
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
    if (at_ == text_.size() || !is_space(text_[at_])) return;
    if (text_[at_] != '\n') continue;
    ++line_;
    line_start_ = at_ + 1;
  }
}

void Lexer::advance() {
  skip_space();
  const std::size_t first = at_;
  if (at_ < text_.size() && is_mark(text_[at_])) {
    ++at_;
  } else {
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  }
  next_ = {text_.substr(first, at_ - first), line_, first - line_start_ + 1};
}

Token Lexer::take() {
  const Token token = next_;
  advance();
  return token;
}

bool Lexer::accept(std::string_view text) {
  if (next_.text != text) return false;
  advance();
  return true;
}

Token Lexer::expect(std::string_view text) {
  if (next_.text != text) fail_expected(next_, "'" + std::string(text) + "'");
  return take();
}

void fail_at(const Token& token, const std::string& message) {
  throw Error(ErrorCode::Parse, "parse: line " + std::to_string(token.line) + ", column " +
                                    std::to_string(token.column) + ": " + message);
}

void fail_expected(const Token& token, const std::string& what) {
  fail_at(token, "expected " + what + ", got " +
                     (token.at_end() ? "the end of the text" : shown(token.text)));
}

}  // namespace

std::string print_number(double value) {
  if (std::isnan(value)) return "nan";  // for either sign
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string print_node(Id id, const Node& node) {
  return name_of(id) + " = " + std::string(info(node.op).name) + ' ' + arguments(node);
}

std::string print(const Program& program) {
  const LeafCounts& n = program.leaves;
  std::string out = "program parameters=" + std::to_string(n.parameters) +
                    " data=" + std::to_string(n.data) + " uniforms=" + std::to_string(n.uniforms) +
                    " seeds=" + std::to_string(n.seeds) + " {\n";
  for (Id id = 0; id < program.nodes.size(); ++id) {
    out += "  " + print_node(id, program.nodes[id]) + '\n';
  }
  for (const Guard& g : program.guards) {
    out += "  guard " + name_of(g.condition) + (g.expected ? " true\n" : " false\n");
  }
  out += "  return";
  const char* separator = " ";
  for (Id output : program.outputs) {
    out += separator + name_of(output);
    separator = ", ";
  }
  return out + "\n}\n";
}

std::string print_dot(const Program& program, std::string_view title) {
  std::string out = "digraph " + dot_quoted(title) + " {\n  label=" + dot_quoted(title) +
                    ";\n  node [shape=box];\n";
  for (Id id = 0; id < program.nodes.size(); ++id) print_dot_node(out, id, program.nodes[id]);
  for (std::size_t k = 0; k < program.guards.size(); ++k) {
    const Guard& g = program.guards[k];
    const std::string self = 'g' + std::to_string(k);
    out += "  " + self + " [label=\"guard " + (g.expected ? "true" : "false") +
           "\", shape=diamond];\n  n" + std::to_string(g.condition) + " -> " + self + ";\n";
  }
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    const std::string self = 'o' + std::to_string(k);
    out += "  " + self + " [label=\"output " + std::to_string(k) + "\", shape=ellipse];\n  n" +
           std::to_string(program.outputs[k]) + " -> " + self + ";\n";
  }
  return out + "}\n";
}

Program parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace topograd::ir

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
