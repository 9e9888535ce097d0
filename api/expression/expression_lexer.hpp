// Tokens of text expressions, and errors that show their place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace topograd::expression {

/// A piece of an expression; `text` refers to it, except for names with coordinates.
struct Token {
  enum class Kind { number, name, mark, end } kind = Kind::end;
  std::string text;  ///< names: a.x as a[0]
  std::size_t at = 0;
  double number = 0;

  bool is(std::string_view mark) const { return kind == Kind::mark && text == mark; }
};

/// Cuts an expression into tokens, one ahead.
class Lexer {
 public:
  /// The text outlives the lexer. Throws Error{Parse} as take() does.
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return next_; }
  /// Throws Error{Parse} if what follows the token is none.
  Token take();
  /// Takes the next token if it is this mark.
  bool accept(std::string_view mark);

  /// Throws Error{Parse}: the message with line and column of byte `at`, then a line of the text
  /// and a caret below it.
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

/// True for what Lexer takes as one name.
bool is_name(std::string_view text);

}  // namespace topograd::expression
