// Splits text expressions into tokens.
#include "expression_lexer.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace topograd::expression {
namespace {

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
std::string show_place(std::string_view line, std::size_t at) {
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

}  // namespace

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
                  show_place(text_.substr(line_start, line_end - line_start), at - line_start));
}

void Lexer::fail_expected(const std::string& what, const Token& got) const {
  fail(got.at, "expected " + what + ", got " + shown(got));
}

}  // namespace topograd::expression
