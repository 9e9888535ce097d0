// Look-up and ordering of snippets, also as JavaScript: types go, words have a text of their own.
#include "library.hpp"

#include "../../ir/error.hpp"
#include "../../ir/op.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <vector>

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

namespace {

struct Replaced {
  std::string_view name, needs, text;
};

/// Functions that GLSL writes with unsigned integers, or has built in.
constexpr std::array kReplaced = {
    Replaced{"is_nan", "", "function tg_is_nan_f64(x) { return x !== x; }\n"},
    Replaced{"is_inf", "",
             "function tg_is_inf_f64(x) { return x === Infinity || x === -Infinity; }\n"},
    Replaced{"inf", "", "function tg_inf_f64() { return Infinity; }\n"},
    Replaced{"nan", "", "function tg_nan_f64() { return NaN; }\n"},
    Replaced{"sign_bit", "", R"(// True if the sign bit of x is set, also of -0.
function tg_sign_bit_f64(x) { return x < 0 || (x === 0 && 1 / x < 0); }
)"},
    Replaced{"copysign", "sign_bit", R"(// The magnitude x >= +0, or NaN, with the sign of s.
function tg_copysign_f64(x, s) { return tg_sign_bit_f64(s) ? -x : x; }
)"},
    Replaced{"words", "", R"(// A number and its words, low word first.
const tg_number = new Float64Array(1);
const tg_words = new Uint32Array(tg_number.buffer);
)"},
    Replaced{"exp2i", "words", R"(// 2 to the power of k for -1022 <= k <= 1023, exact.
function tg_exp2i_f64(k) {
  tg_words[0] = 0;
  tg_words[1] = (k + 1023) << 20;
  return tg_number[0];
}
)"},
    Replaced{"log_split", "words",
             R"(// x = m 2^k for finite x > 0 with sqrt(1/2) <= m < sqrt(2): returns m and k.
function tg_log_split_f64(x) {
  const subnormal = x < 2.2250738585072014e-308;
  tg_number[0] = subnormal ? x * 18014398509481984.0 : x;
  const high = (tg_words[1] + (0x3ff00000 - 0x3fe6a09e)) >>> 0;
  tg_words[1] = (high & 0x000fffff) + 0x3fe6a09e;
  return tg_pair(tg_number[0], (high >>> 20) - (subnormal ? 1023 + 54 : 1023));
}
)"},
    Replaced{"trig_reduce_far", "words exp2i pair_mul pair_scale pi sign_bit",
             R"(// 2/pi times 2^1184.
const tg_two_over_pi = BigInt("0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561" +
  "b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e41" +
  "3991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b7" +
  "4f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046");
// x = z pi/2 + (x + y) with |x + y| <= pi/4 for finite |x| >= 2^20: the sum and z mod 4.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
function tg_trig_reduce_far_f64(x) {
  tg_number[0] = x;
  const exponent = ((tg_words[1] >>> 20) & 0x7ff) - 1075;
  const whole = (BigInt((tg_words[1] & 0xfffff) | 0x100000) << 32n) | BigInt(tg_words[0]);
  const turned = (whole * tg_two_over_pi) >> BigInt(1184 - 200 - exponent);
  let fraction = BigInt.asUintN(200, turned);
  let turns = Number(BigInt.asUintN(2, turned >> 200n));
  const upper = fraction >> 199n === 1n;
  if (upper) {
    fraction = (1n << 200n) - fraction;
    turns += 1;
  }
  const high = Number(fraction);
  const low = Number(fraction - BigInt(high));
  const unit = tg_pair_scale_f64(tg_pair(high, low), tg_exp2i_f64(-200));
  const negative = tg_sign_bit_f64(x);
  const r = tg_pair_scale_f64(tg_pair_mul_f64(unit, tg_half_pi_f64), negative !== upper ? -1 : 1);
  return tg_triple(r.x, r.y, (negative ? 4 - turns : turns) & 3);
}
)"},
    Replaced{
        "fma", "words two_prod two_sum",
        R"(// The significand of a finite number as a whole number, and the exponent of its unit.
function tg_whole_parts(x) {
  tg_number[0] = x;
  const exponent = (tg_words[1] >>> 20) & 0x7ff;
  const high = (tg_words[1] & 0xfffff) | (exponent === 0 ? 0 : 0x100000);
  const size = (BigInt(high) << 32n) | BigInt(tg_words[0]);
  return { whole: x < 0 ? -size : size, exponent: Math.max(exponent, 1) - 1075 };
}
// a b + c, rounded once: exact where the parts of Dekker's product suffice, else by whole numbers.
function tg_fma_f64(a, b, c) {
  const product = a * b;
  if (a === 0 || b === 0 || a - a !== 0 || b - b !== 0) return product + c;
  if (c - c !== 0) return c;
  if (c === 0) return product;
  const size = Math.abs(product);
  const most = Math.max(Math.abs(a), Math.abs(b), Math.abs(c), size);
  if (most < 1e200 && size > 1e-200 && Math.abs(c) > 1e-200) {
    const exact = tg_two_prod_f64(a, b);
    const sum = tg_two_sum_f64(exact.x, c);
    const rest = tg_two_sum_f64(sum.y, exact.y);
    if (rest.y === 0) return sum.x + rest.x;
  }
  const x = tg_whole_parts(a), y = tg_whole_parts(b), z = tg_whole_parts(c);
  let first = x.whole * y.whole, second = z.whole;
  let exponent = x.exponent + y.exponent;
  const apart = z.exponent - exponent;
  if (apart > 0) {
    second <<= BigInt(apart);
  } else {
    first <<= BigInt(-apart);
    exponent = z.exponent;
  }
  let whole = first + second;
  if (whole === 0n) return 0;
  const negative = whole < 0n;
  if (negative) whole = -whole;
  const bits = whole.toString(2).length;
  // Drops bits below the last place of the result, which subnormal numbers have at 2^-1074.
  const drop = Math.max(bits - 53, -1074 - exponent);
  if (drop > 0) {
    const shift = BigInt(drop);
    const rest = whole & ((1n << shift) - 1n), half = 1n << (shift - 1n);
    whole >>= shift;
    if (rest > half || (rest === half && (whole & 1n) === 1n)) whole += 1n;
    exponent += drop;
  }
  let result = Number(whole);
  for (; exponent > 1000; exponent -= 1000) result *= 2 ** 1000;
  for (; exponent < -1000; exponent += 1000) result *= 2 ** -1000;
  result *= 2 ** exponent;
  return negative ? -result : result;
}
)"},
};

constexpr std::string_view kVectors =
    "const tg_pair = (x, y) => ({ x, y });\nconst tg_triple = (x, y, z) => ({ x, y, z });\n";

struct Rule {
  std::regex pattern;
  const char* with;
};

/// One line of GLSL as JavaScript.
std::string translate(std::string line) {
  static const std::regex kHead(R"(^(?:double|dvec2|dvec3|bool|int) (tg_\w+\(.*\) \{.*)$)");
  static const std::regex kTyped(R"(\b(?:double|dvec2|dvec3|bool|int) (\w+))");
  static const auto& rules = *new std::vector<Rule>{
      {std::regex(R"(\bprecise )"), ""},
      {std::regex(R"((\d)lf\b)"), "$1"},
      {std::regex(R"(^const (?:double|int|dvec2) )"), "const "},
      {std::regex(R"(\bint (\w+) = ([^;]*);)"), "let $1 = ($2) | 0;"},
      {std::regex(R"(\b(?:double|dvec2|dvec3|bool|int) (\w+)( =|;))"), "let $1$2"},
      {std::regex(R"(\bdvec2\()"), "tg_pair("},
      {std::regex(R"(\bdvec3\()"), "tg_triple("},
      {std::regex(R"(\bdouble\()"), "("},
      {std::regex(R"(\bint\()"), "Math.trunc("},
      {std::regex(R"(\b(abs|sqrt|floor|ceil|min|max)\()"), "Math.$1("},
      {std::regex(R"( (=|!)= )"), " $1== "},
  };
  if (line.starts_with("//")) return line;
  std::smatch found;
  std::string start;
  if (std::regex_match(line, found, kHead)) {
    const std::string whole = found[1];
    const std::size_t end = whole.find(") {");
    start = "function " + std::regex_replace(whole.substr(0, end), kTyped, "$1");
    line = whole.substr(end);
  }
  for (const Rule& rule : rules) line = std::regex_replace(line, rule.pattern, rule.with);
  return start + line;
}

std::string translate_all(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += translate(std::string(text.substr(0, end))) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

class Collector {
 public:
  void add(std::string_view name) {
    if (!done_.insert(name).second) return;
    const auto* replaced = std::ranges::find(kReplaced, name, &Replaced::name);
    const bool ours = replaced != kReplaced.end();
    const std::string_view needs = ours ? replaced->needs : snippet(name).needs;
    std::size_t at = 0;
    while (at < needs.size()) {
      const std::size_t end = std::min(needs.find(' ', at), needs.size());
      if (end > at) add(needs.substr(at, end - at));
      at = end + 1;
    }
    text_ += "\n" + (ours ? std::string(replaced->text) : translate_all(snippet(name).text));
  }
  std::string text() const {
    if (text_.find("tg_pair(") == std::string::npos &&
        text_.find("tg_triple(") == std::string::npos)
      return text_;
    return "\n" + std::string(kVectors) + text_;
  }

 private:
  static const Snippet& snippet(std::string_view name) {
    for (const Snippet& s : snippets()) {
      if (s.name == name && s.precision == Precision::f64) return s;
    }
    throw Error(ErrorCode::InvalidArgument,
                "math library: no function \"" + std::string(name) + "\" in JavaScript");
  }

  std::set<std::string_view> done_;
  std::string text_;
};

}  // namespace

std::string javascript_spelling(std::string_view function) {
  if (function == "fma") return "tg_fma_f64";
  if (is_built_in(function)) return "Math." + std::string(function);
  return spelling(function, Precision::f64);
}

std::string javascript_library(std::span<const std::string_view> functions) {
  std::vector<std::string_view> wanted(functions.begin(), functions.end());
  std::ranges::sort(wanted);
  Collector collector;
  for (const std::string_view function : wanted) {
    if (function == "fma" || !is_built_in(function)) collector.add(function);
  }
  return collector.text();
}

}  // namespace topograd::codegen::math
