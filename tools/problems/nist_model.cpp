// Parses models in the notation of NIST's headers.
#include "nist_model.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <cctype>

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

}  // namespace topograd::problems
