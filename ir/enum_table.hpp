// Tables of enums: the names of their values, with help for manuals and other names for parsers.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {

/// A row of the table of an enum. Tables with more columns have rows of their own, with `value` and
/// `name`.
template <class E>
struct EnumRow {
  E value{};
  std::string_view name;
  std::string_view help = {};   ///< for manuals
  std::string_view alias = {};  ///< another name that parse_enum() accepts
};

namespace detail {

/// The values of an enum are looked for among 0, ..., kMostEnumerators - 1.
inline constexpr std::size_t kMostEnumerators = 128;

/// Has the offsets of an enum's names in the text that a compiler writes for its values. A compiler
/// writes a value without an enumerator as a cast, "(Enum)7".
struct WrittenEnumerators {
  std::array<const char*, kMostEnumerators> begins{}, ends{};
  std::size_t count = 0, characters = 0;  ///< with a null behind each name in snake_case
};

/// One function for all values: a name that is instantiated value by value costs each file that
/// includes an enum ten times as much.
template <class E, E... values>
constexpr const char* write_enumerators() {
  return __PRETTY_FUNCTION__;
}
template <class E, std::size_t... k>
constexpr const char* write_enumerators(std::index_sequence<k...>) {
  return write_enumerators<E, static_cast<E>(k)...>();
}

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

/// CamelCase becomes snake_case; names without a small letter stay. Returns the length, and writes
/// to `out` if there is one.
constexpr std::size_t to_snake_case(const char* begin, const char* end, char* out) {
  bool camel = false;
  for (const char* c = begin; c != end && !camel; ++c) camel = is_lower(*c);
  std::size_t length = 0;
  const auto put = [&](char c) {
    if (out != nullptr) out[length] = c;
    ++length;
  };
  for (const char* c = begin; c != end; ++c) {
    const bool starts_word = camel && is_upper(*c);
    if (starts_word && c != begin) put('_');
    put(starts_word ? static_cast<char>(*c - 'A' + 'a') : *c);
  }
  return length;
}

template <class E>
constexpr WrittenEnumerators find_enumerators() {
  WrittenEnumerators out;
  // GCC: "... [with E = A::E; E ...values = {A::E::One, ...}; ...]", Clang: "[E = A::E, values =
  // <A::E::One, ...>]".
  const char* c = write_enumerators<E>(std::make_index_sequence<kMostEnumerators>());
  // By hand: with std::string_view, whose length is that of all values, files parse 1 s longer.
  constexpr char kKey[] = "values = ";
  constexpr std::size_t kLength = sizeof kKey - 1;
  for (std::size_t same = 0; same < kLength; ++c) same = *c == kKey[same] ? same + 1 : 0;
  ++c;  // the bracket
  while (*c != '}' && *c != '>' && out.count < kMostEnumerators) {
    while (*c == ' ' || *c == ',') ++c;
    const char* begin = c;
    bool cast = false;
    // Brackets of anonymous namespaces are inside of a value.
    for (int depth = 0; depth > 0 || (*c != ',' && *c != '}' && *c != '>'); ++c) {
      depth += static_cast<int>(*c == '(' || *c == '{' || *c == '<') -
               static_cast<int>(*c == ')' || *c == '}' || *c == '>');
      cast = *c != ':' && (cast || *c == ')');
      if (*c == ':') begin = c + 1;
    }
    if (cast) break;
    out.begins[out.count] = begin;
    out.ends[out.count++] = c;
    out.characters += to_snake_case(begin, c, nullptr) + 1;
  }
  return out;
}

template <class E>
struct EnumeratorNames {
  static constexpr WrittenEnumerators kWritten = find_enumerators<E>();
  static_assert(kWritten.count > 0 && kWritten.count < kMostEnumerators);
  static constexpr auto kText = [] {
    std::array<char, kWritten.characters> out{};
    char* to = out.data();
    for (std::size_t k = 0; k < kWritten.count; ++k)
      to += to_snake_case(kWritten.begins[k], kWritten.ends[k], to) + 1;
    return out;
  }();
};

template <class E>
inline constexpr auto kNamedRows = [] {
  using Names = EnumeratorNames<E>;
  std::array<EnumRow<E>, Names::kWritten.count> rows{};
  const char* text = Names::kText.data();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k] = {static_cast<E>(k), text};
    text += rows[k].name.size() + 1;
  }
  return rows;
}();

/// Throws Error{InvalidArgument}: `WHAT: expected one of NAMES, got "TEXT"`.
[[noreturn]] void refuse_name(std::string_view what, std::string_view text,
                              const std::vector<std::string_view>& names);

}  // namespace detail

/// Declares rows_of(Enum) and name(Enum) for an enum with the values 0, 1, 2, ... whose names are
/// its enumerators, in snake_case.
#define TG_ENUM_NAMES(Enum) TG_ENUM_TABLE(Enum, ::topograd::detail::kNamedRows<Enum>)
/// The same for an enum with a table of its own, in the order of the enumerators.
#define TG_ENUM_TABLE(Enum, table)                               \
  constexpr const auto& rows_of(Enum) { return table; }          \
  constexpr std::string_view name(Enum value) {                  \
    return rows_of(value)[static_cast<std::size_t>(value)].name; \
  }

/// Number of values of an enum with a table.
template <class E>
inline constexpr std::size_t kCountOf = std::size(rows_of(E{}));

/// The names in a table, by value.
template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}
template <class E>
std::vector<std::string> names_of() {
  return names_of(rows_of(E{}));
}

/// The value with this name, or another name, in `rows`. Throws an Error{InvalidArgument} that
/// lists the names: `WHAT: expected one of NAMES, got "TEXT"`.
template <class Rows>
auto parse_row(const Rows& rows, std::string_view what, std::string_view text) {
  std::vector<std::string_view> names, others;
  for (const auto& row : rows) {
    if (row.name == text) return row.value;
    names.push_back(row.name);
    if constexpr (requires { row.alias; }) {
      if (row.alias.empty()) continue;
      if (row.alias == text) return row.value;
      others.push_back(row.alias);
    }
  }
  names.insert(names.end(), others.begin(), others.end());
  detail::refuse_name(what, text, names);
}
template <class E>
E parse_enum(std::string_view what, std::string_view text) {
  return parse_row(rows_of(E{}), what, text);
}

}  // namespace topograd
