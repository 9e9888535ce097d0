// Self-test of the ops: points, the comparison of values and derivatives, and its report.
#include "ops.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../../ir/program.hpp"
#include "../../../runtime/rows/compositions.hpp"
#include "../../../solver/interrupts.hpp"

namespace topograd::check {
namespace {

constexpr double kLargestAngle = 1e9;

/// Special values, ends of the domain, integers and half-integers, with their neighbours.
template <class T>
std::vector<double> special_operands(ir::Op op) {
  std::vector<double> all = ir::special_values();
  const ir::Domain& domain = ir::info(op).domain;
  const T infinity = std::numeric_limits<T>::infinity();
  for (const double end : {domain.min, domain.max, 1.0, -1.0, 0.5, 2.0}) {
    if (!std::isfinite(end)) continue;
    const T at = static_cast<T>(end);
    all.insert(all.end(), {std::nextafter(at, -infinity), end, std::nextafter(at, infinity)});
  }
  for (const T x : {std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min(),
                    std::numeric_limits<T>::max(), std::numeric_limits<T>::epsilon()}) {
    all.insert(all.end(), {x, -x});
  }
  return all;
}

/// A shorter list for three operands, because all triples of the longer list would be too many.
std::vector<double> few_operands() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {0.0,  -0.0,  1,     -1,         0.5,       -0.5,  2,     3,   -0.7,
          1e30, -1e30, 1e-40, -kInfinity, kInfinity, 1e300, 1e-30, 0.1, std::nan("")};
}

template <class T>
double random_operand(ir::Op op, bool first, Random& random) {
  const ir::Domain& domain = ir::info(op).domain;
  switch (random.below(4)) {
    case 0: {  // all magnitudes
      constexpr int kLowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
      const double exponent = random.between(kLowest, std::numeric_limits<T>::max_exponent);
      const double size = std::exp2(exponent - 1) * random.between(1, 2);
      return random.below(2) == 0 ? size : -size;
    }
    case 1: return random.between(-kLargestAngle, kLargestAngle);
    default: {
      const bool bounded = first && std::isfinite(domain.min) && std::isfinite(domain.max);
      if (bounded) return random.between(domain.min, domain.max);
      const double x = random.between(-8, 8);
      return first && std::isfinite(domain.min) ? domain.min + std::fabs(x) : x;
    }
  }
}

template <class T>
runtime::Columns points(ir::Op op, std::uint64_t count, std::uint64_t seed) {
  runtime::Columns columns(3);
  const auto append = [&](double a, double b, double c) {
    columns[0].push_back(static_cast<T>(a));
    columns[1].push_back(static_cast<T>(b));
    columns[2].push_back(static_cast<T>(c));
  };
  const int arity = ir::arity(op);
  const std::vector<double> none = {0};
  const std::vector<double> values = arity < 3 ? special_operands<T>(op) : few_operands();
  for (const double a : values) {
    for (const double b : arity > 1 ? values : none) {
      for (const double c : arity > 2 ? values : none) append(a, b, c);
    }
  }
  Random random(seed * 1000 + static_cast<std::uint64_t>(op));
  for (std::uint64_t k = 0; k < count; ++k) {
    const double a = random_operand<T>(op, true, random);
    const double b = random_operand<T>(op, false, random);
    append(a, b, random_operand<T>(op, false, random));
  }
  return columns;
}

}  // namespace

runtime::Columns op_points(ir::Op op, Precision precision, std::uint64_t count,
                           std::uint64_t seed) {
  return precision == Precision::f32 ? points<float>(op, count, seed)
                                     : points<double>(op, count, seed);
}

namespace {

constexpr std::uint64_t kDefaultPoints = 2000;

/// Data of an op that is the same on all backends: points and expected results.
template <class T>
class Sweep {
 public:
  Sweep(ir::Op op, const Options& options)
      : op_(op),
        value_(single_op(op)),
        derivative_(ir::expand(autodiff::jacobian(value_, slots(op)))) {
    constexpr auto kPrecision = sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
    rows_.parameters = op_points(op, kPrecision,
                                 options.count == 0 ? kDefaultPoints : options.count, options.seed);
    rows_.count = rows_.parameters[0].size();
    if (ir::info(op).composite) values_ = runtime::find_answers<T>(value_, rows_);
    derivatives_ = runtime::find_answers<T>(derivative_, rows_);
  }

  OpResult run(const CheckedBackend& backend) const {
    OpResult result{
        .op = std::string(ir::info(op_).name),
        .backend = std::string(name(backend.runner->backend())),
        .device = backend.runner->device(),
        .precision = backend.runner->precision(),
        .points = rows_.count,
        .bound = sizeof(T) == sizeof(float) ? ir::info(op_).ulp_f32 : ir::info(op_).ulp_f64};
    try {
      compare(backend, result);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unsupported) throw;
      result.points = 0;
      result.value = result.derivative = {};
      result.refused = error.what();
    }
    return result;
  }

 private:
  void compare(const CheckedBackend& backend, OpResult& result) const {
    const runtime::Columns values = backend.runner->run(value_, rows_);
    for (std::size_t i = 0; i < rows_.count; ++i) {
      if (!values_.empty() && values_[i].tiny && !backend.keeps_subnormals) continue;
      const T got = static_cast<T>(values[0][i]);
      const ir::Deviation deviation = values_.empty() ? ir::deviation<T>(op_, point(i), got)
                                                      : runtime::deviation<T>(values_[i], got);
      note(result.value, deviation, got, i, backend);
    }
    const runtime::Columns slopes = backend.runner->run(derivative_, rows_);
    for (std::size_t i = 0; i < rows_.count; ++i) {
      for (std::size_t k = 0; k < slopes.size(); ++k) {
        const T got = static_cast<T>(slopes[k][i]);
        const runtime::Answer& answer = derivatives_[i * slopes.size() + k];
        if (answer.tiny && !backend.keeps_subnormals) continue;
        note(result.derivative, runtime::deviation<T>(answer, got), got, i, backend);
      }
    }
  }

  static std::vector<std::uint32_t> slots(ir::Op op) {
    std::vector<std::uint32_t> all;
    for (int k = 0; k < ir::arity(op); ++k) all.push_back(static_cast<std::uint32_t>(k));
    return all;
  }

  std::array<T, 3> point(std::size_t i) const {
    std::array<T, 3> x;
    for (std::size_t k = 0; k < 3; ++k) x[k] = static_cast<T>(rows_.parameters[k][i]);
    return x;
  }

  void note(Worst& worst, const ir::Deviation& deviation, T got, std::size_t row,
            const CheckedBackend& backend) const {
    const std::array<T, 3> x = point(row);
    const bool lost = runtime::is_tiny(static_cast<T>(deviation.expected)) ||
                      std::ranges::any_of(x, [](T v) { return runtime::is_tiny(v); });
    if (!backend.keeps_subnormals && lost) return;
    if (!deviation.within && worst.broken++ > 0) return;
    if (deviation.within && (worst.broken > 0 || deviation.ulp <= worst.ulp)) return;
    worst.ulp = deviation.ulp;
    worst.at.assign(x.begin(), x.begin() + ir::arity(op_));
    worst.got = got;
    worst.expected = static_cast<double>(deviation.expected);
  }

  ir::Op op_;
  ir::Program value_, derivative_;
  runtime::Rows rows_;
  std::vector<runtime::Answer> values_;  // of composite ops
  std::vector<runtime::Answer> derivatives_;
};

template <class T>
void sweep(ir::Op op, const Options& options, std::span<const CheckedBackend> backends,
           OpsReport& report) {
  constexpr auto kPrecision = sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
  const Sweep<T> made(op, options);
  for (const CheckedBackend& backend : backends) {
    if (backend.runner->precision() != kPrecision) continue;
    report.results.push_back(made.run(backend));
    report.broken += report.results.back().value.broken + report.results.back().derivative.broken;
  }
}

/// An operation that IEEE 754 defines to the bit.
struct Basic {
  ir::Op op;
  double (*host)(double a, double b, double c);
};
constexpr Basic kBasic[] = {
    {ir::Op::Add, [](double a, double b, double) { return a + b; }},
    {ir::Op::Sub, [](double a, double b, double) { return a - b; }},
    {ir::Op::Mul, [](double a, double b, double) { return a * b; }},
    {ir::Op::Div, [](double a, double b, double) { return a / b; }},
    {ir::Op::Sqrt, [](double a, double, double) { return std::sqrt(a); }},
    {ir::Op::Fma, [](double a, double b, double c) { return std::fma(a, b, c); }},
    {ir::Op::Abs, [](double a, double, double) { return std::fabs(a); }},
    {ir::Op::Neg, [](double a, double, double) { return -a; }},
    {ir::Op::Floor, [](double a, double, double) { return std::floor(a); }},
    {ir::Op::Ceil, [](double a, double, double) { return std::ceil(a); }},
    {ir::Op::Trunc, [](double a, double, double) { return std::trunc(a); }},
    {ir::Op::Round, [](double a, double, double) { return std::nearbyint(a); }},
    {ir::Op::Eq, [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
    {ir::Op::Lt, [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
    {ir::Op::Le, [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
};

/// All basic operations of three parameters, one output each.
ir::Program basic_operations() {
  ir::Graph graph;
  std::array<ir::Id, 3> p{};
  for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(ir::Op::Parameter, k);
  std::vector<ir::Id> outputs;
  for (const Basic& basic : kBasic) {
    const int arity = ir::arity(basic.op);
    outputs.push_back(
        graph.add(basic.op, p[0], arity > 1 ? p[1] : ir::kNone, arity > 2 ? p[2] : ir::kNone));
  }
  return graph.extract(outputs, {.parameters = 3});
}

double from_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }

/// Operands at which rounding, overflow, underflow and cancellation happen.
class Operands {
 public:
  explicit Operands(std::uint64_t seed) : random_(seed) {}

  std::array<double, 3> next() {
    double a = one(), b = one(), c = one();
    switch (random_.below(8)) {
      case 0: b = near(a); break;                                       // cancellation
      case 1: c = near(-(a * b)); break;                                // of a fused product
      case 2: b = std::ldexp(b, std::ilogb(a) - std::ilogb(b)); break;  // equal exponents
      case 3: a = b * b; break;  // exact and nearly exact roots
      case 4: a = b * c; break;  // and quotients
      default: break;
    }
    return {a, b, c};
  }

 private:
  std::uint64_t bits() {
    return std::uint64_t{random_.below(1ull << 32)} << 32 | random_.below(1ull << 32);
  }
  /// Up to two units in the last place from x.
  double near(double x) {
    return from_bits(std::bit_cast<std::uint64_t>(x) + random_.below(5) - 2);
  }
  double one() {
    const std::uint64_t sign = bits() & std::uint64_t{1} << 63, fraction = bits() >> 12;
    const std::uint64_t exponent = random_.below(2047) << 52;
    const std::uint64_t middle = (993 + random_.below(60)) << 52;  // 2^-30 to 2^29
    const std::uint64_t zeros = ~std::uint64_t{0} << random_.below(53);
    switch (random_.below(8)) {
      case 0: return from_bits(bits());
      case 1: return from_bits(sign | (exponent + random_.below(9) - (exponent == 0 ? 0 : 4)));
      case 2: return from_bits(sign | fraction >> random_.below(52));  // subnormal
      case 3: return from_bits(sign | exponent | (fraction & zeros));  // few bits: halfway cases
      case 4: return from_bits(sign | middle | fraction);
      case 5: return from_bits(sign | middle | (fraction & zeros));
      case 6:
        return from_bits(sign | exponent |
                         (~std::uint64_t{0} >> 12 & ~(1ull << random_.below(52))));
      default: return special();
    }
  }
  double special() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {0,
                                   kInfinity,
                                   std::numeric_limits<double>::quiet_NaN(),
                                   1,
                                   0.5,
                                   1.5,
                                   2.5,
                                   3,
                                   std::numeric_limits<double>::min(),
                                   std::numeric_limits<double>::denorm_min(),
                                   std::numeric_limits<double>::max(),
                                   0x1p52,
                                   0x1p52 - 0.5,
                                   0x1p53 + 2,
                                   4294967295.0};
    const double x = kSpecial[random_.below(std::size(kSpecial))];
    return random_.below(2) == 0 ? x : -x;
  }

  Random random_;
};

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Compares one operation on all rows.
void compare(const Basic& basic, const runtime::Rows& rows, std::span<const double> got,
             ArithmeticResult& result) {
  const bool may_round_twice = basic.op == ir::Op::Fma && !result.emulated;
  for (std::size_t i = 0; i < rows.count; ++i) {
    const double a = rows.parameters[0][i], b = rows.parameters[1][i], c = rows.parameters[2][i];
    const double expected = basic.host(a, b, c);
    if (same_number(got[i], expected)) continue;
    if (may_round_twice && same_number(got[i], a * b + c)) continue;
    if (result.differences++ > 0) continue;
    result.at = {a, b, c};
    result.at.resize(static_cast<std::size_t>(ir::arity(basic.op)));
    result.got = got[i];
    result.expected = expected;
  }
}

void check_arithmetic(const Options& options, std::span<const CheckedBackend> backends,
                      OpsReport& report) {
  constexpr std::uint64_t kBatch = std::uint64_t{1} << 18;
  const ir::Program program = basic_operations();
  for (const CheckedBackend& backend : backends) {
    if (backend.runner->precision() != Precision::f64) continue;
    const std::size_t first = report.arithmetic.size();
    for (const Basic& basic : kBasic) {
      report.arithmetic.push_back({.op = std::string(ir::info(basic.op).name),
                                   .backend = std::string(name(backend.runner->backend())),
                                   .device = backend.runner->device(),
                                   .emulated = backend.emulated_float64,
                                   .at = {}});
    }
    Operands operands(options.seed);
    for (std::uint64_t done = 0; done < report.operands; done += kBatch) {
      if (Interrupts::came()) break;
      runtime::Rows rows{.count = std::min(kBatch, report.operands - done)};
      rows.parameters.resize(3);
      for (std::size_t i = 0; i < rows.count; ++i) {
        const std::array<double, 3> x = operands.next();
        for (std::size_t k = 0; k < 3; ++k) rows.parameters[k].push_back(x[k]);
      }
      const runtime::Columns got = backend.runner->run(program, rows);
      for (std::size_t k = 0; k < std::size(kBasic); ++k)
        compare(kBasic[k], rows, got[k], report.arithmetic[first + k]);
    }
    for (std::size_t k = first; k < report.arithmetic.size(); ++k)
      report.broken += report.arithmetic[k].differences;
  }
}

}  // namespace

OpsReport check_ops(const Options& options, std::uint64_t operands, std::string_view only) {
  const std::vector<CheckedBackend> backends = open_backends(options);
  return check_ops(options, backends, operands, only);
}

OpsReport check_ops(const Options& options, std::span<const CheckedBackend> backends,
                    std::uint64_t operands, std::string_view only) {
  OpsReport report;
  for (const ir::Op op : ir::all_ops()) {
    if (Interrupts::came()) break;
    if (!only.empty() && only != ir::info(op).name) continue;
    for (const Precision precision : precisions_of(backends)) {
      if (precision == Precision::f32) {
        sweep<float>(op, options, backends, report);
      } else {
        sweep<double>(op, options, backends, report);
      }
    }
  }
  if (only.empty() || only == kBasicOperations) {
    report.operands = operands;
    check_arithmetic(options, backends, report);
  }
  return report;
}

namespace {

using runtime::Composition;

std::vector<Composition> sampled_pairs(const PairsOptions& options) {
  const std::vector<ir::Op> ops = runtime::composable_ops();
  std::vector<Composition> out;
  const std::uint64_t all = ops.size() * ops.size();
  for (std::uint64_t k = options.seed % options.every; k < all; k += options.every)
    out.push_back({ops[k / ops.size()], ops[k % ops.size()]});
  return out;
}

std::vector<Composition> drawn_triples(const PairsOptions& options) {
  const std::vector<ir::Op> ops = runtime::composable_ops();
  Random random(options.seed);
  std::vector<Composition> out(options.triples);
  for (Composition& triple : out) triple = {random.pick(ops), random.pick(ops), random.pick(ops)};
  return out;
}

void run(const Composition& composition, std::span<const CheckedBackend> backends,
         PairsReport& report) {
  bool wrong = false;
  for (const Precision precision : precisions_of(backends)) {
    std::vector<runtime::CheckedRunner> same;
    for (const CheckedBackend& backend : backends) {
      if (backend.runner->precision() == precision)
        same.push_back({backend.runner.get(), backend.keeps_subnormals});
    }
    const auto found =
        runtime::check_composition(composition, runtime::composition_rows(precision), same);
    report.compared += found.compared;
    report.undecided += found.undecided;
    for (const runtime::WrongNumber& number : found.wrong) {
      report.failures.push_back({.backend = std::string(name(number.runner->backend())),
                                 .device = number.runner->device(),
                                 .precision = precision,
                                 .number = number});
      wrong = true;
    }
  }
  if (wrong) report.wrong.push_back(runtime::text(composition));
}

}  // namespace

PairsReport check_pairs(const PairsOptions& options) {
  const std::vector<CheckedBackend> backends = open_backends(options);
  return check_pairs(options, backends);
}

PairsReport check_pairs(const PairsOptions& options, std::span<const CheckedBackend> backends) {
  if (options.every == 0)
    throw Error(ErrorCode::InvalidArgument, "check pairs: expected every >= 1, got 0");
  PairsReport report;
  for (const Composition& pair : sampled_pairs(options)) {
    if (Interrupts::came()) break;
    run(pair, backends, report);
    ++report.pairs;
  }
  for (const Composition& triple : drawn_triples(options)) {
    if (Interrupts::came()) break;
    run(triple, backends, report);
    ++report.triples;
  }
  return report;
}

}  // namespace topograd::check
