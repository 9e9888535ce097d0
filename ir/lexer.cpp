// Splits the text form into tokens.
#include "lexer.hpp"
#include "error.hpp"

namespace topograd::ir {
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
