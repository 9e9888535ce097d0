// Tokens of the text form, with their positions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace topograd::ir {

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

}  // namespace topograd::ir
