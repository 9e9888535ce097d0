// NIST's files: their models, data, starts and certified values.
#include "nist.hpp"

#include "../../api/expression/expression.hpp"
#include "../../api/formats/packed_text.hpp"
#include "../../ir/error.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

namespace topograd::problems {
namespace {

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Replaces every complete word `from` in `text`.
std::string replace_word(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at)) {
    const std::size_t end = at + from.size();
    const bool whole = (at == 0 || !is_word_letter(text[at - 1])) &&
                       (end == text.size() || !is_word_letter(text[end]));
    if (whole) text.replace(at, from.size(), to);
    at += whole ? to.size() : from.size();
  }
  return text;
}

/// Converts NIST's notation for topograd::parse(): Fortran's powers, brackets, inverse functions.
std::string translate(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == '[' || c == '{') c = '(';
    if (c == ']' || c == '}') c = ')';
  }
  for (std::size_t at = text.find("**"); at != text.npos; at = text.find("**", at))
    text.replace(at, 2, "^");
  constexpr std::string_view kWords[][2] = {
      {"arctan", "atan"}, {"arcsin", "asin"}, {"arccos", "acos"}, {"ln", "log"}};
  for (const auto& [from, to] : kWords) text = replace_word(std::move(text), from, to);
  return text;
}

std::string trimmed(std::string text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.back())) text.pop_back();
  return {std::find_if_not(text.begin(), text.end(), space), text.end()};
}

/// The right side without its final error term, "+ e".
std::string without_error(std::string text) {
  text = trimmed(std::move(text));
  if (text.empty() || text.back() != 'e') return text;
  const std::string before = trimmed(text.substr(0, text.size() - 1));
  return before.ends_with('+') ? before.substr(0, before.size() - 1) : text;
}

std::vector<std::string> statements(std::span<const std::string> lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (line.find('=') != line.npos) {
      out.push_back(line);
    } else if (!out.empty()) {
      out.back() += " " + line;
    }
  }
  return out;
}

}  // namespace

std::string nist_expression(std::span<const std::string> lines) {
  std::vector<std::string> parts = statements(lines);
  if (parts.empty()) {
    throw Error(ErrorCode::Parse, "expected a model \"y = ...\" after \"Model:\", got none");
  }
  const std::string model = translate(std::move(parts.back()));
  parts.pop_back();
  std::string text;
  for (const std::string& definition : parts) text += trimmed(translate(definition)) + ";\n";
  const std::size_t equals = model.find('=');
  return text + "(" + without_error(model.substr(equals + 1)) + ") - (" +
         trimmed(model.substr(0, equals)) + ")";
}

ExpressionNames nist_names(std::size_t parameters, const std::vector<std::string>& columns) {
  ExpressionNames names;
  for (std::size_t k = 1; k <= parameters; ++k) names.parameters.push_back("b" + std::to_string(k));
  names.data = columns;
  return names;
}

ir::Program parse_nist_model(std::span<const std::string> lines, std::size_t parameters,
                             const std::vector<std::string>& columns) {
  return parse(nist_expression(lines), nist_names(parameters, columns));
}

namespace {

constexpr double kCertifiedDigits = 11;

std::vector<std::string> lines_of(std::string_view text, const std::string& name) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text.substr(text_begin(text, name)))};
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

/// The same for a line in which '=' is a word of its own, with or without spaces around it.
std::vector<std::string> words_of_equation(std::string line) {
  const std::size_t equals = line.find('=');
  if (equals != line.npos) line.replace(equals, 1, " = ");
  return words_of(line);
}

/// Parses a complete word as a number, with Fortran's exponents (1.5D-3), too.
std::optional<double> number(std::string word) {
  for (char& c : word) {
    if (c == 'D' || c == 'd') c = 'e';
  }
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name)
      : lines_(lines_of(text, name)), name_(name) {}

  NistSet read() {
    set_.name = std::filesystem::path(name_).stem().string();
    const auto titled = [](const char* title) {
      return [title](const std::string& line) { return line.starts_with(title); };
    };
    const std::size_t model = find("Model:", 0, titled("Model:"));
    const std::size_t starts = find("Starting values", model, [](const std::string& line) {
      return line.find("Starting ") != line.npos;
    });
    std::size_t data = find("Data:", 0, titled("Data:"));
    for (std::size_t k = data; k < lines_.size(); ++k) {
      if (lines_[k].starts_with("Data:")) data = k;
    }
    for (std::size_t k = starts; k < data; ++k) read_header_line(k);
    if (set_.certified.empty()) fail(starts, "expected starting values \"b1 = ...\" below it");
    if (!has_sum_) fail(starts, "expected \"Residual Sum of Squares:\" below it");
    read_columns(data);
    try {
      const std::span<const std::string> lines(&lines_[model], starts - model);
      set_.expression = nist_expression(lines);
      set_.residual = parse_nist_model(lines, set_.certified.size(), set_.columns);
    } catch (const Error& error) {
      const std::string message = error.what();
      fail(model, message.substr(0, message.find('\n')));
    }
    for (std::size_t k = data + 1; k < lines_.size(); ++k) read_observation(k);
    if (set_.data.empty()) fail(data, "expected observations below it, got none");
    if (expected_ && *expected_ != static_cast<double>(set_.observations())) {
      fail(lines_.size() - 1, "expected " + std::to_string(static_cast<long>(*expected_)) +
                                  " observations, as the header says, got " +
                                  std::to_string(set_.observations()));
    }
    return std::move(set_);
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& message) const {
    throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line + 1) + ": " + message);
  }

  template <class Is>
  std::size_t find(const std::string& title, std::size_t from, Is is) const {
    for (std::size_t k = from; k < lines_.size(); ++k) {
      if (is(lines_[k])) return k;
    }
    throw Error(ErrorCode::Parse,
                name_ + ": expected a set of NIST's StRD, there is no line \"" + title + "\"");
  }

  /// Reads a line below the title of the starting values: "b1 = start start certified deviation",
  /// or a value after a colon.
  void read_header_line(std::size_t k) {
    const std::string& line = lines_[k];
    const std::vector<std::string> words = words_of_equation(line);
    if (words.size() >= 2 && words[0][0] == 'b' && words[1] == "=") return read_parameter(k, words);
    const auto after_colon = [&] { return number(words.back()); };
    if (line.starts_with("Residual Sum of Squares:")) {
      const std::optional<double> sum = after_colon();
      if (!sum) fail(k, "expected a number, got \"" + words.back() + "\"");
      set_.certified_sum = *sum;
      has_sum_ = true;
    } else if (line.starts_with("Number of Observations:")) {
      expected_ = after_colon();
    }
  }

  void read_parameter(std::size_t k, const std::vector<std::string>& words) {
    const std::string expected = "b" + std::to_string(set_.certified.size() + 1);
    if (words[0] != expected) fail(k, "expected " + expected + " = ..., got " + words[0]);
    if (words.size() < 5) {
      fail(k, "expected two starts and a certified value after \"" + expected + " =\", got " +
                  std::to_string(words.size() - 2) + " numbers");
    }
    for (const std::size_t column : {2u, 3u, 4u}) {
      const std::optional<double> value = number(words[column]);
      if (!value) fail(k, "expected a number, got \"" + words[column] + "\"");
      (column == 4 ? set_.certified : set_.starts[column - 2]).push_back(*value);
    }
  }

  void read_columns(std::size_t k) {
    set_.columns = words_of(lines_[k].substr(std::string_view("Data:").size()));
    for (std::string& column : set_.columns) {
      for (char& c : column) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (set_.columns.size() < 2) fail(k, "expected names of columns as in \"Data: y x\"");
  }

  void read_observation(std::size_t k) {
    const std::vector<std::string> words = words_of(lines_[k]);
    if (words.empty()) return;
    if (words.size() != set_.columns.size()) {
      fail(k, "expected " + std::to_string(set_.columns.size()) + " numbers, got " +
                  std::to_string(words.size()) + " words");
    }
    for (const std::string& word : words) {
      const std::optional<double> value = number(word);
      if (!value) fail(k, "expected a number, got \"" + word + "\"");
      set_.data.push_back(*value);
    }
  }

  std::vector<std::string> lines_;
  const std::string& name_;
  NistSet set_;
  bool has_sum_ = false;
  std::optional<double> expected_;  // observations
};

}  // namespace

NistSet parse_nist(std::string_view text, const std::string& name) {
  return Reader(text, name).read();
}

NistSet read_nist(const std::string& path) { return parse_nist(read_packed_text(path), path); }

std::vector<std::string> nist_files(const std::string& path) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(path)) return {path};
  std::vector<std::string> files;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.is_regular_file() && entry.path().extension() == ".dat")
        files.push_back(entry.path().string());
    }
  }
  if (files.empty())
    throw Error(ErrorCode::File, path + ": expected a file or a folder with files *.dat");
  std::sort(files.begin(), files.end());
  return files;
}

/// The curve of the model over the data with these unknowns.
static std::optional<Curve> curve_of(const NistSet& set, const std::vector<double>& b) {
  CurveSource source{.label = set.name,
                     .expression = set.expression,
                     .names = nist_names(b.size(), set.columns),
                     .parameters = {},
                     .data = std::vector<std::vector<double>>(set.columns.size()),
                     .uniforms = {}};
  for (const double& value : b) source.parameters.push_back(&value);
  for (std::size_t k = 0; k < set.data.size(); ++k)
    source.data[k % set.columns.size()].push_back(set.data[k]);
  return find_curve(std::move(source));
}

std::unique_ptr<Nist> nist(const NistSet& set, std::size_t start) {
  auto out = std::make_unique<Nist>();
  out->b = set.starts[start];
  const Parameters b = out->problem.add_parameters(out->b, 1, "b");
  std::vector<Value> parameters;
  for (std::size_t k = 0; k < out->b.size(); ++k) parameters.push_back(b[k]);
  const auto residual = [&](Element e) {
    std::vector<Value> columns;
    for (int k = 0; k < e.data_count(); ++k) columns.push_back(e.data(k));
    return to_values(set.residual, {.parameters = parameters, .data = columns, .uniforms = {}});
  };
  out->problem.add_residuals(set.observations(), residual, {.data = set.data, .label = set.name});
  out->curve = curve_of(set, out->b);
  return out;
}

double matching_digits(std::span<const double> b, std::span<const double> certified) {
  double digits = kCertifiedDigits;
  for (std::size_t k = 0; k < certified.size(); ++k) {
    const double scale = certified[k] == 0 ? 1 : std::abs(certified[k]);
    const double error = std::abs(b[k] - certified[k]) / scale;
    // Written so that NaN counts as no digits.
    digits = error < 1 ? std::min(digits, -std::log10(error)) : 0;
    if (digits == 0) break;
  }
  return digits;
}

}  // namespace topograd::problems
