// Tokens of text expressions, and errors with their position.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace topograd::expression {

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

/// True if Lexer reads `text` as one name.
bool is_name(std::string_view text);

}  // namespace topograd::expression
