// Words and numbers of a text.
#include "word_reader.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace topograd {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kLongestQuote = 40;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

template <class T>
bool reads_as(std::string_view word, T& value) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  return status == std::errc() && end == word.data() + word.size();
}

}  // namespace

WordReader::WordReader(std::string_view text, std::string name)
    : text_(text), name_(std::move(name)) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

std::string_view WordReader::word() {
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\n') {
      ++line_;
    } else if (!is_blank(text_[at_])) {
      return take();
    }
  }
  return {};
}

std::string_view WordReader::word_of_line() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  if (at_ == text_.size() || text_[at_] == '\n') return {};
  return take();
}

std::string_view WordReader::rest_of_line() const {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(at_, end - at_);
}

bool WordReader::next_line() {
  at_ = std::min(text_.find('\n', at_), text_.size());
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\n') {
      ++line_;
    } else if (!is_blank(text_[at_])) {
      return true;
    }
  }
  return false;
}

std::string_view WordReader::take() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '\n' && !is_blank(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
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
    fail(std::string(what) + " as a finite number", word);
  return value;
}

std::uint64_t WordReader::to_index(std::string_view word, std::string_view what,
                                   std::uint64_t limit) const {
  std::uint64_t value = 0;
  if (!reads_as(word, value)) fail(std::string(what) + " as a whole number", word);
  if (value >= limit) {
    fail(std::string(what) +
             (limit == 0 ? ", of which there is none" : " in 0 .. " + std::to_string(limit - 1)),
         word);
  }
  return value;
}

void WordReader::fail_at(std::size_t line, const std::string& what) const {
  throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line) + ": " + what);
}

void WordReader::fail(std::string_view expected, std::string_view got) const {
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
