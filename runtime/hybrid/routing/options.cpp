// The table of fields, used for ranges, JSON and environment.
#include "options.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../cache/json_values.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <variant>

namespace topograd::runtime::hybrid {
namespace {

using BatchSizes = decltype(HybridOptions::min_batch_of);

using Member =
    std::variant<std::uint64_t HybridOptions::*, double HybridOptions::*, bool HybridOptions::*,
                 std::string HybridOptions::*, Force HybridOptions::*, BatchSizes HybridOptions::*>;

struct Field {
  std::string_view name;
  Member member;
  double min = 0;  ///< of numbers, inclusive
  double max = std::numeric_limits<double>::infinity();
};

std::span<const Field> fields() {
  using O = HybridOptions;
  static const Field kTable[] = {
      {"force", &O::force},
      {"min_batch", &O::min_batch},
      {"min_batch_of", &O::min_batch_of},
      {"admit_software", &O::admit_software},
      {"memory_limit", &O::memory_limit},
      {"resident_limit", &O::resident_limit},
      {"min_success_rate", &O::min_success_rate, 0, 1},
      {"success_window", &O::success_window, 1, 1e6},
      {"success_samples", &O::success_samples, 1, 1e6},
      {"speed_up_unsure", &O::speed_up_unsure, 1, 1e6},
      {"speed_up_sure", &O::speed_up_sure, 1, 1e6},
      {"sure_confidence", &O::sure_confidence, 0, 1},
      {"margin", &O::margin, 1, 1e6},
      {"step", &O::step, 1, 1e6},
      {"explore_every", &O::explore_every},
      {"explore_share", &O::explore_share, 0, 1},
      {"back_off_seconds", &O::back_off_seconds, 0, 1e9},
      {"max_back_off_seconds", &O::max_back_off_seconds, 0, 1e9},
      {"window", &O::window, 1, 4096},
      {"outlier_factor", &O::outlier_factor, 1.01, 1e6},
      {"drift_samples", &O::drift_samples, 2, 64},
      {"max_kernels", &O::max_kernels, 1, 1e7},
      {"coalesce", &O::coalesce},
      {"split_size", &O::split_size},
      {"threads", &O::threads, 0, 4096},
      {"telemetry", &O::telemetry},
      {"trace_events", &O::trace_events, 0, 1e8},
      {"state", &O::state},
  };
  return kTable;
}

[[noreturn]] void refuse(const std::string& where, const std::string& expected,
                         const std::string& got) {
  throw Error(ErrorCode::InvalidArgument, where + ": expected " + expected + ", got " + got);
}

std::string text_of(double value) {
  return std::isfinite(value) ? Json(value).dump() : std::to_string(value);
}

template <class Number>
Number parse_number(std::string_view text, const std::string& where) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse(where, "a number", '"' + std::string(text) + '"');
  return value;
}

bool parse_bool(std::string_view text, const std::string& where) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  refuse(where, "0, 1, false or true", '"' + std::string(text) + '"');
}

/// "map=256,scan=4096"
BatchSizes parse_sizes(std::string_view text, const std::string& where) {
  BatchSizes sizes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == item.npos || equals == 0)
      refuse(where, "OPERATION=SIZE,...", '"' + std::string(item) + '"');
    sizes[std::string(item.substr(0, equals))] =
        parse_number<std::uint64_t>(item.substr(equals + 1), where);
  }
  return sizes;
}

/// Sets a field from the text of an environment variable.
void set_text(HybridOptions& options, const Field& field, const std::string& text,
              const std::string& where) {
  std::visit(
      [&](auto member) {
        auto& value = options.*member;
        using T = std::remove_reference_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          value = parse_bool(text, where);
        } else if constexpr (std::is_arithmetic_v<T>) {
          value = parse_number<T>(text, where);
        } else if constexpr (std::is_same_v<T, Force>) {
          value = parse_enum<Force>(where, text);
        } else if constexpr (std::is_same_v<T, BatchSizes>) {
          value = parse_sizes(text, where);
        } else {
          value = text;
        }
      },
      field.member);
}

void require(bool expected_type, const std::string& where, const char* expected, const Json& json) {
  if (!expected_type) refuse(where, expected, shown(json));
}

template <class T>
void read(const Json& json, const std::string& where, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    require(json.is_boolean(), where, "true or false", json);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    const auto number = whole_number<std::uint64_t>(json);
    require(number.has_value(), where, "a whole number >= 0", json);
    value = *number;
    return;
  } else if constexpr (std::is_same_v<T, double>) {
    require(json.is_number(), where, "a number", json);
  } else {
    require(json.is_string(), where, "a string", json);
  }
  value = json.get<T>();
}

void read(const Json& json, const std::string& where, Force& value) {
  std::string text;
  read(json, where, text);
  value = parse_enum<Force>(where, text);
}

void read(const Json& json, const std::string& where, BatchSizes& value) {
  require(json.is_object(), where, "an object of sizes by operation", json);
  for (const auto& [operation, size] : json.items())
    read(size, where + "." + operation, value[operation]);
}

void set_json(HybridOptions& options, const Field& field, const Json& json) {
  const std::string where = "hybrid options: " + std::string(field.name);
  std::visit([&](auto member) { read(json, where, options.*member); }, field.member);
}

constexpr std::string_view kPrefix = "TOPOGRAD_HYBRID_";

std::string variable(const Field& field) {
  std::string name(kPrefix);
  for (const char c : field.name)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

/// A misspelt name would silently set nothing.
void check_variables() {
  for (const std::string& name : platform::environment_names(kPrefix)) {
    if (std::ranges::find(fields(), name, variable) == fields().end())
      refuse(name, "a name from docs/hybrid.md after " + std::string(kPrefix),
             '"' + name.substr(kPrefix.size()) + '"');
  }
}

}  // namespace

Clock steady_clock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

HybridOptions parse_hybrid_options(std::string_view text, HybridOptions base) {
  Json json;
  try {
    json = parse_json(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::Parse, "hybrid options: " + json_error_text(error.what(), true));
  }
  if (!json.is_object()) refuse("hybrid options", "a JSON object", shown(json));
  for (const auto& [key, value] : json.items()) {
    const auto found = std::ranges::find(fields(), key, &Field::name);
    if (found == fields().end())
      refuse("hybrid options", "a name from docs/hybrid.md", '"' + key + '"');
    set_json(base, *found, value);
  }
  check(base);
  return base;
}

std::string to_json(const HybridOptions& options) {
  Json json = Json::object();
  for (const Field& field : fields()) {
    std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), Force HybridOptions::*>)
            json[field.name] = name(options.*member);
          else
            json[field.name] = options.*member;
        },
        field.member);
  }
  return json.dump(2) + "\n";
}

HybridOptions environment_hybrid_options(HybridOptions base) {
  if (const auto path = platform::environment("TOPOGRAD_HYBRID")) {
    const auto bytes = platform::read_file(*path, std::uint64_t{1} << 20);
    if (!bytes) throw Error(ErrorCode::File, "TOPOGRAD_HYBRID: cannot read " + *path);
    try {
      base = parse_hybrid_options({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                                  std::move(base));
    } catch (const Error& error) {
      throw Error(error.code(), "TOPOGRAD_HYBRID: " + *path + ": " + error.what());
    }
  }
  check_variables();
  for (const Field& field : fields()) {
    const std::string from = variable(field);
    if (const auto text = platform::environment(from.c_str())) set_text(base, field, *text, from);
  }
  check(base);
  return base;
}

void check(const HybridOptions& options) {
  for (const Field& field : fields()) {
    std::visit(
        [&](auto member) {
          if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(options.*member)>>) {
            const auto value = static_cast<double>(options.*member);
            if (!(value >= field.min && value <= field.max)) {
              refuse("hybrid options: " + std::string(field.name),
                     "a value in [" + text_of(field.min) + ", " + text_of(field.max) + "]",
                     text_of(value));
            }
          }
        },
        field.member);
  }
}

std::uint64_t minimum_batch(const HybridOptions& options, std::string_view operation) {
  const auto own = options.min_batch_of.find(operation);
  return own == options.min_batch_of.end() ? options.min_batch : own->second;
}

HybridOptions process_hybrid_options() {
  HybridOptions base;
  base.state = "default";
  return environment_hybrid_options(std::move(base));
}

}  // namespace topograd::runtime::hybrid
