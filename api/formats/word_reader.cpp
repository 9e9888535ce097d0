// Words and numbers of a text.
#include "word_reader.hpp"

#include "../../ir/error.hpp"
#include "packed_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

constexpr std::size_t kLongestQuote = 40;

template <class T>
bool reads_as(std::string_view word, T& value) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  return status == std::errc() && end == word.data() + word.size();
}

}  // namespace

bool reads_as(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::result_out_of_range) {
    long double wide = 0;  // has room for what is too small for a double
    code = std::from_chars(text.data(), end, wide).ec;
    value = static_cast<double>(wide);
    if (std::isinf(value)) return false;
  }
  return code == std::errc() && rest == end;
}

WordReader::WordReader(std::string_view text, std::string name, Syntax syntax)
    : text_(text), name_(std::move(name)), syntax_(syntax), at_(text_begin(text_, name_)) {}

std::size_t WordReader::continued_end() const {
  if (!syntax_.continued_lines || text_[at_] != '\\') return text_.npos;
  const std::size_t end = text_.find_first_not_of(kBlanks, at_ + 1);
  if (end == text_.npos) return text_.size();
  return text_[end] == '\n' ? end : text_.npos;
}

void WordReader::skip_blanks() {
  while (at_ < text_.size()) {
    if (syntax_.comments && text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    const std::size_t end = is_blank(text_[at_]) ? at_ : continued_end();
    if (end == text_.npos) return;
    if (end < text_.size() && text_[end] == '\n') ++line_;
    at_ = std::min(end + 1, text_.size());
  }
}

std::string_view WordReader::word() {
  std::string_view word;
  while ((word = word_of_line()).empty() && at_ < text_.size()) {
    ++line_;
    ++at_;
  }
  return word;
}

std::string_view WordReader::word_of_line() {
  skip_blanks();
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '\n' && !is_blank(text_[at_]) &&
         !(syntax_.comments && text_[at_] == '#') && continued_end() == text_.npos)
    ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view WordReader::rest_of_line() const {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(at_, end - at_);
}

bool WordReader::next_line() {
  if (syntax_.continued_lines) {
    while (!word_of_line().empty()) continue;
  } else {
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
  for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
    if (text_[at_] != '\n') return true;
    ++line_;
    ++at_;
  }
  return false;
}

double WordReader::number(std::string_view what) { return to_number(word(), what); }
double WordReader::number_of_line(std::string_view what) { return to_number(word_of_line(), what); }
std::uint64_t WordReader::index(std::string_view what, std::uint64_t limit) {
  return to_index(word(), what, limit);
}
std::uint64_t WordReader::index_of_line(std::string_view what, std::uint64_t limit) {
  return to_index(word_of_line(), what, limit);
}

double WordReader::to_number(std::string_view word, std::string_view what) const {
  double value = 0;
  if (!reads_as(word, value) || !std::isfinite(value))
    fail_expected(std::string(what) + " as a finite number", word);
  return value;
}

std::uint64_t WordReader::to_index(std::string_view word, std::string_view what,
                                   std::uint64_t limit) const {
  std::uint64_t value = 0;
  if (!reads_as(word, value)) fail_expected(std::string(what) + " as a whole number", word);
  if (value >= limit) {
    fail_expected(std::string(what) + (limit == 0 ? ", of which there is none"
                                                  : " in 0 .. " + std::to_string(limit - 1)),
                  word);
  }
  return value;
}

void WordReader::fail_at(std::size_t line, const std::string& what) const {
  throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line) + ": " + what);
}

void WordReader::fail_expected(std::string_view expected, std::string_view got) const {
  std::string quote(got.substr(0, kLongestQuote));
  std::ranges::replace_if(
      quote, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  const bool ended = got.empty();
  const std::string end = left() == 0 ? "the end of the file" : "the end of the line";
  fail("expected " + std::string(expected) + ", got " + (ended ? end : "\"" + quote + "\""));
}

void append_number(std::string& text, double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end.ptr);
}

}  // namespace topograd
