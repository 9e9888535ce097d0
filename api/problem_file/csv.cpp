// Reads CSV files.
#include "csv.hpp"

#include "../../ir/error.hpp"
#include "../formats/packed_text.hpp"
#include "../formats/word_reader.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace topograd {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// Parses a field that consists of one number.
std::optional<double> csv_number(std::string_view field) {
  double value = 0;
  return reads_as(trimmed(field), value) ? std::optional(value) : std::nullopt;
}

/// True for a field that stands for a number that is not there.
bool is_missing(std::string_view field) {
  std::string lower(trimmed(field));
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const char* word : {"", "na", "n/a", "nan", "null", "none", "?", "-", "."})
    if (lower == word) return true;
  return false;
}

/// True for a number with a comma instead of a point.
bool has_decimal_comma(std::string_view field) {
  std::string text(field);
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return false;
  text[comma] = '.';
  return csv_number(text).has_value();
}

/// True for what looks like 2024-01-31, 31.1.2024, 1/31/24, 12:30 and the like.
bool is_date(std::string_view field) {
  constexpr std::string_view kMarks = "-/.:";
  if (field.empty() || field[0] < '0' || field[0] > '9') return false;
  if (field.find_first_not_of("0123456789-/.:TZ +") != std::string_view::npos) return false;
  const auto marks = std::ranges::count_if(
      field, [&](char c) { return kMarks.find(c) != std::string_view::npos; });
  return marks >= 2 || field.find(':') != std::string_view::npos;
}

/// What is wrong with a field that is no number, for messages; empty if that is not known.
std::string_view fault_of(std::string_view field) {
  if (has_decimal_comma(field)) return ", which has a decimal comma: numbers have a point";
  if (is_date(field)) return ", a date or a time: write it as a number";
  if (is_missing(field) && trimmed(field).size() != 3)
    return R"(: "skip_missing": true skips such rows)";
  return {};
}

/// True for a row of words that are numbers, some of them with a decimal comma: blanks separate
/// them.
bool has_words_with_commas(std::string_view row) {
  std::size_t words = 0, commas = 0;
  for (std::string_view rest = trimmed(row); !rest.empty(); ++words) {
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
    const bool comma = has_decimal_comma(word);
    if (!comma && !csv_number(word)) return false;
    commas += comma ? 1 : 0;
    rest = trimmed(rest.substr(word.size()));
  }
  return words >= 2 && commas > 0;
}

/// True if the first row of a table holds names (CsvTable).
bool holds_names(const std::vector<std::string>& row, const CsvPicks& picks) {
  if (picks.header) return *picks.header;
  const auto is_number = [&](const std::string& field) {
    return csv_number(field).has_value() || has_decimal_comma(field) ||
           (picks.skip_missing && is_missing(field));
  };
  if (!picks.names.empty() || picks.numbers.empty()) {
    return !std::ranges::all_of(row, is_number) ||
           std::ranges::find_first_of(row, picks.names) != row.end();
  }
  return std::ranges::none_of(picks.numbers, [&](std::size_t column) {
    return column < row.size() && is_number(row[column]);
  });
}

/// A field as messages show it.
std::string shown_field(const std::string& field) {
  constexpr std::size_t kMost = 40;
  std::string text = field.substr(0, kMost);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return "\"" + text + (field.size() > kMost ? "...\"" : "\"");
}

constexpr char kBlank = ' ';  // any run of blanks and tabs

class CsvReader {
 public:
  /// Reads from a row on, of a file with a known separator.
  CsvReader(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {}
  /// Reads from the beginning and detects the separator.
  CsvReader(std::string_view text, const std::string& name)
      : text_(text), name_(name), at_(text_begin(text, name)) {}

  std::size_t line() const { return line_; }
  /// Position at which the last row begins.
  std::size_t begin() const { return begin_; }
  char separator() const { return separator_; }
  void go_to(std::size_t begin) { at_ = begin; }

  /// Reads the next row that is not skipped; returns false at the end.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
      line_ = next_line_;
      if (!trimmed(rest).empty() && trimmed(rest).front() != '#') {
        if (separator_ == 0) separator_ = separator_of(rest);
        begin_ = at_;
        read_row(fields);
        return true;
      }
      at_ += rest.size();
      end_line();
    }
    return false;
  }

  [[noreturn]] void fail(std::size_t line, const std::string& message) const {
    throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line) + ": " + message);
  }

 private:
  static char separator_of(std::string_view row) {
    if (has_words_with_commas(row)) return kBlank;
    for (const char c : {'\t', ';'})
      if (trimmed(row).find(c) != std::string_view::npos) return c;
    if (row.find_first_of(",\"") != std::string_view::npos) return ',';
    row = row.substr(0, row.find('#'));
    return trimmed(row).find(' ') != std::string_view::npos ? kBlank : ',';
  }

  bool at_line_end() const {
    return at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '\r';
  }

  void end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++next_line_;
  }

  /// Words up to the end of the line or a comment.
  void read_words(std::vector<std::string>& fields) {
    const std::string_view rest = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
    at_ += rest.size();
    std::string_view left = trimmed(rest.substr(0, rest.find('#')));
    while (!left.empty()) {
      const std::string_view word = left.substr(0, left.find_first_of(" \t"));
      fields.emplace_back(word);
      left = trimmed(left.substr(word.size()));
    }
    end_line();
  }

  void read_row(std::vector<std::string>& fields) {
    fields.clear();
    if (separator_ == kBlank) return read_words(fields);
    for (;;) {
      fields.push_back(read_field());
      if (at_line_end()) break;
      ++at_;  // skips the separator
    }
    end_line();
  }

  std::string read_field() {
    while (!at_line_end() && text_[at_] == ' ') ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
    const std::size_t begin = at_;
    while (!at_line_end() && text_[at_] != separator_) ++at_;
    return std::string(trimmed(text_.substr(begin, at_ - begin)));
  }

  std::string read_quoted() {
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"' && !text_.substr(at_ + 1).starts_with('"')) break;
      if (c == '"') ++at_;
      if (c == '\n') ++next_line_;
      out += c;
    }
    if (at_ >= text_.size()) fail(line_, "expected an end of the quoted field");
    ++at_;
    while (!at_line_end() && text_[at_] == ' ') ++at_;
    if (!at_line_end() && text_[at_] != separator_)
      fail(line_, "expected a separator after the quoted field");
    return out;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0, begin_ = 0, line_ = 1, next_line_ = 1;
  char separator_ = 0;
};

/// True if a column that is read has no number in the row.
bool lacks_number(const std::vector<std::string>& row, const std::vector<std::string>& names,
                  const CsvPicks& picks) {
  for (const std::size_t column : picks.numbers)
    if (column < row.size() && is_missing(row[column])) return true;
  for (std::size_t k = 0; k < names.size(); ++k)
    if (std::ranges::find(picks.names, names[k]) != picks.names.end() && is_missing(row[k]))
      return true;
  return false;
}

}  // namespace

CsvTable::CsvTable(std::string text, const std::string& name, const CsvPicks& picks)
    : text_(std::move(text)), name_(name) {
  CsvReader reader(text_, name_);
  if (picks.skip_missing) skipped_ = 0;
  std::vector<std::string> row;
  while (reader.next(row)) {
    if (width_ == 0) {
      width_ = row.size();
      if (holds_names(row, picks)) {
        names_ = row;
        continue;
      }
    }
    if (row.size() != width_)
      reader.fail(reader.line(), "expected " + std::to_string(width_) +
                                     " fields as the first row has, got " +
                                     std::to_string(row.size()));
    if (picks.skip_missing && lacks_number(row, names_, picks)) {
      ++*skipped_;
      continue;
    }
    rows_.push_back({reader.line(), reader.begin()});
  }
  separator_ = reader.separator();
  if (!rows_.empty()) return;
  const std::size_t skipped = skipped_.value_or(0);
  std::string rest;
  if (skipped > 0)
    rest = "; " + std::to_string(skipped) + (skipped == 1 ? " row" : " rows") +
           " with missing numbers " + (skipped == 1 ? "was" : "were") + " skipped";
  reader.fail(reader.line(), "expected rows of numbers, got none" + rest);
}

std::vector<double> CsvTable::column(const std::string& column) const {
  const auto found = std::ranges::find(names_, column);
  if (found != names_.end()) {
    if (std::find(found + 1, names_.end(), column) != names_.end())
      throw Error(ErrorCode::Parse, name_ + ": expected one column " + shown_field(column) +
                                        ", got several of that name; give its number from 0");
    return this->column(static_cast<std::size_t>(found - names_.begin()));
  }
  std::string known;
  for (const std::string& name : names_) known += (known.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::Parse,
              name_ +
                  (names_.empty() ? ": expected a column by its number, the first row has no "
                                    "names, got "
                                  : ": expected one of the columns " + known + ", got ") +
                  shown_field(column));
}

std::vector<double> CsvTable::column(std::size_t column) const {
  if (column >= width_)
    throw Error(ErrorCode::Parse, name_ + ": expected a column below " + std::to_string(width_) +
                                      ", got " + std::to_string(column));
  std::vector<double> out;
  out.reserve(rows_.size());
  CsvReader reader(text_, name_, separator_);
  std::vector<std::string> fields;
  for (const Row& row : rows_) {
    reader.go_to(row.begin);
    reader.next(fields);
    const std::string& field = fields[column];
    const std::optional<double> value = csv_number(field);
    if (!value || !std::isfinite(*value)) {
      const std::string called =
          names_.empty() ? std::to_string(column) : "\"" + names_[column] + "\"";
      throw Error(ErrorCode::Parse,
                  name_ + ":" + std::to_string(row.line) + ": expected a finite number in column " +
                      called + ", got " + shown_field(field) + std::string(fault_of(field)));
    }
    out.push_back(*value);
  }
  return out;
}

}  // namespace topograd
