// Words and numbers of a text, with the file and line in every error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace topograd {

/// Reads a text that consists of one number. Returns false for other texts and beyond the range of
/// a double. A number that is too small for a double is 0.
bool reads_as(std::string_view text, double& value);

/// Reads a text word by word; words are separated by white space.
///
/// Errors are Error{Parse}: "file:line: expected ..., got ...", also for text in UTF-16. A byte
/// order mark of UTF-8 is passed over.
class WordReader {
 public:
  /// Separate the words of a line.
  static constexpr std::string_view kBlanks = " \t\r\v\f";
  static constexpr bool is_blank(char c) {
    for (const char blank : kBlanks)
      if (c == blank) return true;
    return false;
  }

  /// Other things that count as white space.
  struct Syntax {
    bool comments = false;         ///< from # to the end of the line
    bool continued_lines = false;  ///< the end of a line after a backslash
  };

  ///   text  outlives the reader
  ///   name  of the file, for messages
  WordReader(std::string_view text, std::string name, Syntax syntax);
  WordReader(std::string_view text, std::string name)
      : WordReader(text, std::move(name), Syntax()) {}

  /// The next word; empty at the end of the text.
  std::string_view word();
  /// The next word of the line; empty at its end.
  std::string_view word_of_line();
  /// The rest of the line, without its end; the next word is still its first one.
  std::string_view rest_of_line() const;
  /// Goes on to the next line that has a word; false at the end of the text.
  bool next_line();

  /// The next word as a finite number. `what` names it in the error: "a coordinate".
  double number(std::string_view what);
  double number_of_line(std::string_view what);
  /// The next word as a whole number in 0 .. limit - 1.
  std::uint64_t index(std::string_view what, std::uint64_t limit);
  std::uint64_t index_of_line(std::string_view what, std::uint64_t limit);

  /// Bytes that were not read yet.
  std::size_t left() const { return text_.size() - at_; }
  std::size_t line() const { return line_; }
  const std::string& name() const { return name_; }
  /// Throws Error{Parse} with file and line.
  [[noreturn]] void fail(const std::string& what) const { fail_at(line_, what); }
  [[noreturn]] void fail_at(std::size_t line, const std::string& what) const;
  /// Throws "expected ..., got ...".
  ///
  ///   got  the latest word; empty at the end of a line or of the text
  [[noreturn]] void fail_expected(std::string_view expected, std::string_view got) const;

 private:
  /// Goes on to a word or to the end of the line.
  void skip_blanks();
  /// The end of the line that a backslash here continues; npos if there is none.
  std::size_t continued_end() const;
  std::string_view take();
  double to_number(std::string_view word, std::string_view what) const;
  std::uint64_t to_index(std::string_view word, std::string_view what, std::uint64_t limit) const;

  std::string_view text_;
  std::string name_;
  Syntax syntax_;
  std::size_t at_ = 0, line_ = 1;
};

/// Appends the shortest text that reads back to the same bits.
void append_number(std::string& text, double value);

}  // namespace topograd
