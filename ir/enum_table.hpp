// Tables of enums: the names of their values, with help for manuals and other names for parsers.
#pragma once

#include <algorithm>
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

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

/// The enumerator as the compiler writes it; empty if the enum has none of this value.
template <auto value>
constexpr std::string_view enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  const std::string_view last = text.substr(text.rfind(':') + 1);
  return last.find(')') == last.npos ? last : std::string_view{};
}

/// Number of enumerators, whose values are 0, 1, 2, ...
template <class E, std::size_t first = 0>
constexpr std::size_t count_enumerators() {
  if constexpr (enumerator<static_cast<E>(first)>().empty())
    return first;
  else
    return count_enumerators<E, first + 1>();
}

/// An enumerator's name with a null behind it: CamelCase becomes snake_case.
template <auto value>
struct EnumeratorName {
  static constexpr std::string_view kWritten = enumerator<value>();
  static constexpr auto kText = [] {
    std::array<char, 2 * kWritten.size() + 1> out{};
    const bool camel = std::ranges::any_of(kWritten, [](char c) { return c >= 'a' && c <= 'z'; });
    std::size_t end = 0;
    for (const char c : kWritten) {
      const bool starts_word = camel && is_upper(c);
      if (starts_word && end > 0) out[end++] = '_';
      out[end++] = starts_word ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
  }();
};

template <class E>
inline constexpr auto kNamedRows = []<std::size_t... k>(std::index_sequence<k...>) {
  return std::array{
      EnumRow<E>{static_cast<E>(k), EnumeratorName<static_cast<E>(k)>::kText.data()}...};
}
(std::make_index_sequence<count_enumerators<E>()>());

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
