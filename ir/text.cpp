// The text form of programs: printing, also as graphs, and the parser.
#include "text.hpp"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

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

namespace {

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
    if (const auto wrong = find_violation(program_)) fail_at(places_[wrong->node], wrong->message);
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
    places_.push_back(name);
    const auto id = static_cast<Id>(places_.size() - 1);
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
  std::vector<Token> places_;  // where each node is defined
};

}  // namespace

Program parse(std::string_view text) { return Parser(text).parse(); }

namespace {

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

}  // namespace

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

}  // namespace topograd::ir
