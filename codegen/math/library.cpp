// Look-up and ordering of snippets.
#include "library.hpp"
#include <algorithm>
#include <array>
#include <set>
#include "../../ir/error.hpp"
#include "../../ir/op.hpp"

namespace topograd::codegen::math {
namespace {

constexpr std::array<std::string_view, 5> kBuiltIns = {"abs", "ceil", "floor", "fma", "sqrt"};
/// Names of the functions of ops, and of those that programs with guards need.
std::vector<std::string_view> list_functions() {
  std::set<std::string_view> names = {"is_inf", "is_nan"};
  for (const ir::OpInfo& op : ir::kOps) {
    if (!op.function.empty() && !is_built_in(op.function)) names.insert(op.function);
  }
  return {names.begin(), names.end()};
}

const Snippet* find(std::string_view name, Precision precision) {
  for (const Snippet& s : snippets()) {
    if (s.name == name && s.precision == precision) return &s;
  }
  return nullptr;
}

const Snippet& get(std::string_view name, Precision precision) {
  if (const Snippet* found = find(name, precision)) return *found;
  throw Error(ErrorCode::InvalidArgument, "math library: no function \"" + std::string(name) +
                                              "\" in " +
                                              (precision == Precision::f64 ? "f64" : "f32"));
}

template <class Visit>
void for_each_word(std::string_view words, Visit&& visit) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0) visit(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

// Appends a snippet after those that it needs, depth first. The depth of the library is below ten.
void add(const Snippet& snippet, std::set<std::string_view>& done, std::string& out) {
  if (!done.insert(snippet.name).second) return;
  for_each_word(snippet.needs,
                [&](std::string_view need) { add(get(need, snippet.precision), done, out); });
  if (!out.empty()) out += '\n';
  out += snippet.text;
}

}  // namespace

bool has(std::string_view function, Precision precision) {
  return is_built_in(function) || find(function, precision) != nullptr;
}

bool is_built_in(std::string_view function) {
  return std::ranges::find(kBuiltIns, function) != kBuiltIns.end();
}

std::string spelling(std::string_view function, Precision precision) {
  if (is_built_in(function)) return std::string(function);
  return "tg_" + std::string(get(function, precision).name) +
         (precision == Precision::f64 ? "_f64" : "_f32");
}

std::string_view source(std::string_view function, Precision precision) {
  return get(function, precision).text;
}

std::string library(std::span<const std::string_view> functions, Precision precision) {
  std::vector<std::string_view> wanted(functions.begin(), functions.end());
  std::ranges::sort(wanted);
  std::set<std::string_view> done;
  std::string out;
  for (std::string_view function : wanted) {
    if (!is_built_in(function)) add(get(function, precision), done, out);
  }
  return out;
}

std::string library(const std::vector<std::string>& functions, Precision precision) {
  const std::vector<std::string_view> views(functions.begin(), functions.end());
  return library(std::span<const std::string_view>(views), precision);
}

std::span<const std::string_view> functions() {
  static const auto& all = *new std::vector<std::string_view>(list_functions());
  return all;
}

}  // namespace topograd::codegen::math
