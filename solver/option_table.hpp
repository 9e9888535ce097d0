// The fields of SolverOptions as a table: their names, values and ranges, and where they apply.
#pragma once

#include "options.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace topograd {

/// What a field holds: true or false, a whole number, a number, one of several names, or a text.
enum class OptionKind { flag, count, number, choice, text };

/// A value of a field. monostate: it is left empty.
using OptionValue = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// Who has to agree on the value of a field.
enum class OptionScope {
  process,  ///< nobody: backends, threads, outputs
  ranks,    ///< all ranks of a distributed solve: limits and tolerances
  steps,    ///< also the solve that continues from a checkpoint: what decides on steps
};

/// The numbers that a field takes. NaN and infinities are refused where `most` is infinite.
struct SolverOptionRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false, without_most = false;  ///< the ends are excluded
  /// Another field, which is the least value (excluded if without_least).
  std::string_view other = {};
};

/// A field. Nested ones have names with a dot, such as line_search.max_expansion.
struct SolverOption {
  std::string_view name;
  OptionKind kind = OptionKind::flag;
  OptionScope scope = OptionScope::steps;
  SolverOptionRange range = {};
  bool in_files = true;         ///< problem files may set it
  std::string_view alias = {};  ///< another name in Python
  OptionValue (*get)(const SolverOptions& options) = nullptr;
  void (*set_field)(SolverOptions& options, std::string_view name,
                    const OptionValue& value) = nullptr;
  std::vector<std::string> (*choices)() = nullptr;  ///< names, then other names; kind choice alone
};

/// All fields that have values of these kinds; not the callback, the order of elimination and the
/// restrictions of devices. A new option needs a member with its comment and a row here: ranges,
/// problem files, the command's --option, Python, checkpoints and the comparison between ranks
/// follow.
std::span<const SolverOption> option_table();

/// The row of a name or alias; null if there is none.
const SolverOption* find_option(std::string_view name);

/// Sets the field. Throws Error{InvalidArgument} that names it, for a value of another kind, a name
/// that is none, or a number out of range.
void set(const SolverOption& option, SolverOptions& options, const OptionValue& value);

/// Throws Error{InvalidArgument} that names the field, its range and the value.
void check_range(const SolverOption& option, const SolverOptions& options);

/// The value as text: a number that reads back the same, true or false, a name; empty if it is left
/// empty.
std::string text_of(const OptionValue& value);
/// The value of a text for this field. Throws Error{InvalidArgument}.
OptionValue value_of(const SolverOption& option, std::string_view text);

}  // namespace topograd
