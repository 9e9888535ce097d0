// The table of the fields of SolverOptions.
#include "option_table.hpp"

#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "../runtime/plan/record/plan_record.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <locale>
#include <memory>
#include <sstream>
#include <type_traits>
#include <utility>

namespace topograd {
namespace {

using PlanPointer = std::shared_ptr<const runtime::PlanRecord>;

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

constexpr const char* kAll = "all";  // of counts without a bound

[[noreturn]] void refuse(std::string_view of, std::string_view what, const OptionValue& value) {
  const std::string text = text_of(value);
  throw Error(ErrorCode::InvalidArgument,
              std::string(of) + ": expected " + std::string(what) + ", got " +
                  (std::holds_alternative<std::string>(value) ? '"' + text + '"' : text));
}

template <class T>
OptionValue to_value(const T& field) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, double> || std::same_as<T, std::string>)
    return field;
  else if constexpr (std::same_as<T, PlanPointer>)
    return field ? OptionValue(runtime::to_json(*field)) : OptionValue();
  else if constexpr (std::is_enum_v<T>)
    return std::string(name(field));
  else if constexpr (std::same_as<T, std::uint64_t>)
    return field == std::numeric_limits<T>::max() ? OptionValue(std::string(kAll))
                                                  : static_cast<std::int64_t>(field);
  else
    return std::int64_t{field};
}
template <class T>
OptionValue to_value(const std::optional<T>& field) {
  return field ? to_value(*field) : OptionValue();
}

std::int64_t whole(std::string_view of, const OptionValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return *count;
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || !(std::abs(*number) < 0x1p62) || std::trunc(*number) != *number)
    refuse(of, "a whole number", value);
  return static_cast<std::int64_t>(*number);
}

template <class T>
void from_value(T& field, std::string_view of, const OptionValue& value) {
  if constexpr (std::same_as<T, bool>) {
    if (!std::holds_alternative<bool>(value)) refuse(of, "true or false", value);
    field = std::get<bool>(value);
  } else if constexpr (std::same_as<T, double>) {
    const auto* count = std::get_if<std::int64_t>(&value);
    if (count == nullptr && !std::holds_alternative<double>(value)) refuse(of, "a number", value);
    field = count != nullptr ? static_cast<double>(*count) : std::get<double>(value);
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    if (value == OptionValue(std::string(kAll))) {
      field = std::numeric_limits<T>::max();
      return;
    }
    if (whole(of, value) < 0) refuse(of, "a whole number >= 0", value);
    field = static_cast<T>(whole(of, value));
  } else if constexpr (std::same_as<T, int>) {
    if (!std::in_range<int>(whole(of, value))) refuse(of, "a whole number of 32 bits", value);
    field = static_cast<int>(whole(of, value));
  } else {
    if (!std::holds_alternative<std::string>(value)) refuse(of, "a text", value);
    const std::string& text = std::get<std::string>(value);
    if constexpr (std::is_enum_v<T>)
      field = parse_enum<T>(of, text);
    else if constexpr (std::same_as<T, PlanPointer>)
      field = std::make_shared<const runtime::PlanRecord>(runtime::parse_plan(text));
    else
      field = text;
  }
}
template <class T>
void from_value(std::optional<T>& field, std::string_view of, const OptionValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return field.reset();
  T read{};
  from_value(read, of, value);
  field = read;
}

template <class T>
constexpr OptionKind kind_of() {
  if constexpr (std::same_as<T, bool>)
    return OptionKind::flag;
  else if constexpr (std::same_as<T, double>)
    return OptionKind::number;
  else if constexpr (std::is_enum_v<T>)
    return OptionKind::choice;
  else if constexpr (std::integral<T>)
    return OptionKind::count;
  else
    return OptionKind::text;
}

template <class E>
std::vector<std::string> choices_of() {
  std::vector<std::string> names = names_of<E>();
  for (const auto& row : rows_of(E{}))
    if constexpr (requires { row.alias; })
      if (!row.alias.empty()) names.emplace_back(row.alias);
  return names;
}

constexpr OptionScope kProcess = OptionScope::process, kRanks = OptionScope::ranks,
                      kSteps = OptionScope::steps;
constexpr bool kNotInFiles = false;

constexpr SolverOptionRange at_least(double least) { return {.least = least}; }
constexpr SolverOptionRange above(double least) { return {.least = least, .without_least = true}; }
constexpr SolverOptionRange kPositive = above(0), kAny = {};
constexpr SolverOptionRange kShare = {.least = 0, .most = 1, .without_most = true};
constexpr SolverOptionRange kWithinOne = {
    .least = 0, .most = 1, .without_least = true, .without_most = true};

/// A row; `Access` gives the member of options.
template <class Access>
SolverOption row(std::string_view name, Access, OptionScope scope,
                 const SolverOptionRange& range = {}, bool in_files = true,
                 std::string_view alias = {}) {
  using Field = std::remove_cvref_t<decltype(Access{}(std::declval<SolverOptions&>()))>;
  using Value = typename Unwrapped<Field>::type;
  SolverOption out{.name = name,
                   .kind = kind_of<Value>(),
                   .scope = scope,
                   .range = range,
                   .in_files = in_files,
                   .alias = alias};
  out.get = [](const SolverOptions& options) { return to_value(Access{}(options)); };
  out.set_field = [](SolverOptions& options, std::string_view of, const OptionValue& value) {
    from_value(Access{}(options), of, value);
  };
  if constexpr (std::is_enum_v<Value>) out.choices = choices_of<Value>;
  return out;
}

#define TG_FIELD(path) \
#path, [](auto& options) -> auto& { return options.path; }

const auto& all_rows() {
  static const auto& table = *new std::vector<SolverOption>{
      row(TG_FIELD(backend), kProcess),
      row(TG_FIELD(precision), kSteps),
      row(TG_FIELD(method), kSteps),
      row(TG_FIELD(linear_solver), kRanks),
      row(TG_FIELD(components), kProcess),
      row(TG_FIELD(component_covariances), kProcess),
      row(TG_FIELD(max_iterations), kRanks, at_least(0)),
      row(TG_FIELD(time_limit_seconds), kProcess, kPositive),
      row(TG_FIELD(function_tolerance), kRanks, at_least(0)),
      row(TG_FIELD(gradient_tolerance), kRanks, at_least(0)),
      row(TG_FIELD(parameter_tolerance), kRanks, at_least(0)),
      row(TG_FIELD(absolute_gradient_tolerance), kRanks, at_least(0)),
      row(TG_FIELD(scale_free), kSteps),
      row(TG_FIELD(constraint_tolerance), kRanks, kPositive),
      row(TG_FIELD(kkt_tolerance), kRanks, kPositive),
      row(TG_FIELD(initial_penalty), kRanks, at_least(0)),
      row(TG_FIELD(initial_barrier), kRanks, at_least(0)),
      row(TG_FIELD(max_outer_iterations), kRanks, at_least(1)),
      row(TG_FIELD(initial_trust_region_radius), kSteps, kPositive),
      row(TG_FIELD(min_trust_region_radius), kSteps, kPositive),
      row(TG_FIELD(max_trust_region_radius), kSteps, {.other = "min_trust_region_radius"}),
      row(TG_FIELD(min_relative_decrease), kSteps, kShare),
      row(TG_FIELD(min_lm_diagonal), kSteps, at_least(0)),
      row(TG_FIELD(max_lm_diagonal), kSteps, {.other = "min_lm_diagonal"}),
      row(TG_FIELD(jacobi_scaling), kSteps),
      row(TG_FIELD(rescale_steps), kSteps),
      row(TG_FIELD(dogleg_type), kSteps),
      row(TG_FIELD(use_nonmonotonic_steps), kSteps),
      row(TG_FIELD(max_consecutive_nonmonotonic_steps), kSteps, at_least(1)),
      row(TG_FIELD(max_consecutive_invalid_steps), kSteps, at_least(0)),
      row(TG_FIELD(linear_tolerance), kSteps, kWithinOne),
      row(TG_FIELD(max_linear_iterations), kSteps, at_least(1)),
      row(TG_FIELD(eta), kSteps, kShare),
      row(TG_FIELD(forcing_sequence), kSteps),
      row(TG_FIELD(factor), kSteps),
      row(TG_FIELD(preconditioner), kSteps),
      row(TG_FIELD(normal_matrix), kSteps),
      row(TG_FIELD(max_lbfgs_rank), kSteps, at_least(1)),
      row(TG_FIELD(line_search.sufficient_decrease), kSteps, kWithinOne),
      row(TG_FIELD(line_search.sufficient_curvature_decrease), kSteps,
          {.most = 1,
           .without_least = true,
           .without_most = true,
           .other = "line_search.sufficient_decrease"}),
      row(TG_FIELD(line_search.max_expansion), kSteps, above(1)),
      row(TG_FIELD(line_search.min_step_size), kSteps, at_least(0)),
      row(TG_FIELD(line_search.max_evaluations), kSteps, at_least(1)),
      row(TG_FIELD(max_escapes), kSteps, at_least(0)),
      row(TG_FIELD(first_order.learning_rate), kSteps, kPositive, true, "learning_rate"),
      row(TG_FIELD(first_order.beta1), kSteps, kShare),
      row(TG_FIELD(first_order.beta2), kSteps, kShare),
      row(TG_FIELD(first_order.epsilon), kSteps, kPositive),
      row(TG_FIELD(first_order.weight_decay), kSteps, at_least(0)),
      row(TG_FIELD(first_order.momentum), kSteps, kShare),
      row(TG_FIELD(threads), kProcess, at_least(0)),
      row(TG_FIELD(device), kProcess, kAny, kNotInFiles),
      row(TG_FIELD(float64), kProcess, kAny, kNotInFiles),
      row(TG_FIELD(accumulation), kSteps),
      row(TG_FIELD(plan), kSteps, kAny, kNotInFiles),
      row(TG_FIELD(fallback_threshold), kProcess, at_least(0)),
      row(TG_FIELD(max_instances_per_dispatch), kSteps, at_least(0)),
      row(TG_FIELD(validation), kProcess, kAny, kNotInFiles),
      row(TG_FIELD(deterministic), kSteps),
      row(TG_FIELD(bits), kSteps),
      row(TG_FIELD(domain), kSteps),
      row(TG_FIELD(domain_epsilon), kSteps, kWithinOne),
      row(TG_FIELD(cross_check), kSteps, at_least(0)),
      row(TG_FIELD(profile), kProcess),
      row(TG_FIELD(checkpoint.file), kRanks, kAny, kNotInFiles),
      row(TG_FIELD(checkpoint.every_seconds), kProcess, at_least(0), kNotInFiles),
      row(TG_FIELD(resume), kRanks, kAny, kNotInFiles),
      row(TG_FIELD(update_state_every_iteration), kSteps),
  };
  return table;
}

#undef TG_FIELD

double number_of(const OptionValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return static_cast<double>(*count);
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? *number : 0;
}

std::string printed(double value) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << value;
  return out.str();
}

/// "a finite number >= 0", "in [0, 1)", ">= min_lm_diagonal".
std::string text_of(const SolverOptionRange& range) {
  const bool bounded = std::isfinite(range.most);
  std::string_view other = range.other;
  other.remove_prefix(std::min(other.size(), other.rfind('.') + 1));
  const std::string least = other.empty() ? printed(range.least) : std::string(other);
  if (bounded)
    return "in " + std::string(range.without_least ? "(" : "[") + least + ", " +
           printed(range.most) + (range.without_most ? ")" : "]");
  return (other.empty() ? "a finite number " : "") +
         std::string(range.without_least ? "> " : ">= ") + least;
}

}  // namespace

std::span<const SolverOption> option_table() { return all_rows(); }

const SolverOption* find_option(std::string_view name) {
  const auto found = std::ranges::find_if(all_rows(), [&](const SolverOption& option) {
    return option.name == name || (!option.alias.empty() && option.alias == name);
  });
  return found == all_rows().end() ? nullptr : &*found;
}

void set(const SolverOption& option, SolverOptions& options, const OptionValue& value) {
  option.set_field(options, option.name, value);
  if (option.range.other.empty()) check_range(option, options);
}

void check_range(const SolverOption& option, const SolverOptions& options) {
  const SolverOptionRange& range = option.range;
  if (option.kind != OptionKind::count && option.kind != OptionKind::number) return;
  const bool any = range.other.empty() && std::isinf(range.least) && std::isinf(range.most);
  if (any) return;
  const double value = number_of(option.get(options));
  const double least =
      range.other.empty() ? range.least : number_of(find_option(range.other)->get(options));
  const bool not_below = range.without_least ? value > least : value >= least;
  const bool not_above = range.without_most ? value < range.most : value <= range.most;
  const bool finite = !range.other.empty() || std::isfinite(range.most) || std::isfinite(value);
  if (not_below && not_above && finite) return;
  throw Error(ErrorCode::InvalidArgument, "options: " + std::string(option.name) + " must be " +
                                              text_of(range) + ", got " + printed(value));
}

std::string text_of(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  if (const auto* number = std::get_if<double>(&value)) return ir::print_number(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return {};
}

OptionValue value_of(const SolverOption& option, std::string_view text) {
  const char* const end = text.data() + text.size();
  switch (option.kind) {
    case OptionKind::flag:
      if (text != "true" && text != "false")
        refuse(option.name, "true or false", std::string(text));
      return text == "true";
    case OptionKind::count:
      if (std::int64_t count = 0;
          std::from_chars(text.data(), end, count) == std::from_chars_result{end, std::errc()})
        return count;
      [[fallthrough]];  // 1e3
    case OptionKind::number:
      if (double number = 0;
          std::from_chars(text.data(), end, number) == std::from_chars_result{end, std::errc()})
        return number;
      if (option.kind == OptionKind::number) refuse(option.name, "a number", std::string(text));
      return std::string(text);  // "all"
    case OptionKind::choice:
    case OptionKind::text: break;
  }
  return std::string(text);
}

}  // namespace topograd
