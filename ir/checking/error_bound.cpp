// Distances in units in the last place, and running error bounds.
#include "error_bound.hpp"

#include "../passes/passes.hpp"
#include "../program.hpp"
#include "random_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace topograd::ir {
namespace {

using Long = long double;

constexpr Long kUnknown = std::numeric_limits<Long>::infinity();
// Relative error (absolute for values below one) from which on a value counts as unknown: beyond it
// the ends of an interval do not bound what an op does inside.
constexpr Long kLost = 0.1L;

template <class T>
double bound_of(Op op) {
  return sizeof(T) == sizeof(float) ? info(op).ulp_f32 : info(op).ulp_f64;
}

/// True if results must have the evaluator's bits.
template <class T>
bool exact(Op op) {
  return bound_of<T>(op) == 0 && !info(op).rounds_product;
}

/// Replaces infinity by the first power of two beyond T's range.
template <class T>
Long finite(Long x) {
  if (!std::isinf(x)) return x;
  return std::copysign(std::ldexp(Long(1), std::numeric_limits<T>::max_exponent), x);
}

template <class T>
double distance(Long expected, Long got) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(got)) {
    return std::isnan(expected) == std::isnan(got) ? 0 : kWrong;
  }
  if (std::isinf(expected)) return got == expected ? 0 : kWrong;
  if (expected == 0) return got == 0 && std::signbit(got) == std::signbit(expected) ? 0 : kWrong;
  const Long largest = std::ldexp(Long(1), std::numeric_limits<T>::max_exponent);
  if (std::isinf(got) && std::fabs(expected) >= largest) {
    return std::signbit(got) == std::signbit(expected) ? 0 : kWrong;
  }
  return static_cast<double>(std::fabs(finite<T>(got) - expected) / ulp<T>(expected));
}

/// Rounding error of the product in a fused multiply-add that a device does in two steps; infinite
/// if the product alone overflows.
template <class T>
Long product_rounding(Op op, Long a, Long b) {
  if (!info(op).rounds_product || !std::isfinite(a * b)) return 0;
  return std::fabs(a * b) > std::numeric_limits<T>::max() ? kUnknown : ulp<T>(a * b);
}

/// True for ops with a discrete result: it is exact if the op's decision is certain.
bool is_step(Op op) { return info(op).boolean || (info(op).steps && op != Op::Mod); }

/// A comparison that may be true or false.
constexpr Enclosure kEither = {0.5L, 0.5L};
bool is_either(const Enclosure& e) { return e.value == kEither.value && e.error == kEither.error; }

/// Computes the enclosure of one node from those of its operands.
class Step {
 public:
  Step(const Node& node, Against against)
      // Equal operands move together.
      : against_(against),
        same_{node.args[1] == node.args[0], node.args[2] == node.args[0],
              node.args[2] == node.args[1]} {}

  template <class T>
  Carried run(Op op, const std::array<Enclosure, 3>& x) {
    const Enclosure enclosure = enclose<T>(op, x);
    return {enclosure, decided_};
  }

 private:
  /// Returns an unknown enclosure, or both truths of a comparison. The program is undecided if a
  /// discrete op could have jumped, and if both truths of an operand leave nothing known.
  Enclosure unknown(Op op, const std::array<Enclosure, 3>& x) {
    const bool doubtful = std::ranges::any_of(x, is_either);
    if (is_step(op) || op == Op::Mod || doubtful) decided_ = false;
    return info(op).boolean ? kEither : Enclosure{0, kUnknown};
  }

  template <class T>
  Enclosure enclose(Op op, const std::array<Enclosure, 3>& x) {
    if (op == Op::Select) return choose(x);
    const auto n = static_cast<std::size_t>(arity(op));
    const auto all = std::span(x).first(n);
    if (op == Op::Zmul && x[0].value == 0 && x[0].error == 0) return {0, 0};
    if (std::ranges::any_of(all, [](const Enclosure& e) { return !e.known(); }))
      return unknown(op, x);
    const bool certain = std::ranges::all_of(all, [](const Enclosure& e) { return e.error == 0; });
    if (certain && exact<T>(op)) {
      const Long y = apply<T>(op, static_cast<T>(x[0].value), static_cast<T>(x[1].value),
                              static_cast<T>(x[2].value));
      const bool rounded =
          std::isfinite(y) && y != apply<Long>(op, x[0].value, x[1].value, x[2].value);
      if (against_ == Against::evaluator || !rounded) return {y, 0};
    }
    if (may_be_equal(op, x) || may_wrap(op, x) || may_be_whole(op, x)) return unknown(op, x);
    return settle<T>(op, x, spread(op, x));
  }

  /// True for eq and ne if the operands may be equal: the ends of the intervals do not show that.
  bool may_be_equal(Op op, const std::array<Enclosure, 3>& x) const {
    if ((op != Op::Eq && op != Op::Ne) || same_[0]) return false;
    const Long reach = x[0].error + x[1].error;
    return reach > 0 && std::fabs(x[0].value - x[1].value) <= reach;
  }

  /// True for periodic ops whose operand may move by about half a period: the ends of the interval
  /// do not bound what lies between them.
  static bool may_wrap(Op op, const std::array<Enclosure, 3>& x) {
    if (op == Op::Sin || op == Op::Cos || op == Op::Tan) return x[0].error >= 1;
    if (op != Op::Mod || x[1].value == 0 || !std::isfinite(x[0].value / x[1].value)) return false;
    const Long moved = x[0].error + std::fabs(x[0].value / x[1].value) * x[1].error;
    return moved >= std::fabs(x[1].value) / 2;
  }

  /// True for powers of negative numbers whose exponent may be whole: other exponents give NaN.
  static bool may_be_whole(Op op, const std::array<Enclosure, 3>& x) {
    if (op != Op::Pow || x[1].error == 0 || !(x[0].value - x[0].error < 0)) return false;
    return std::floor(x[1].value + x[1].error) >= x[1].value - x[1].error;
  }

  Enclosure choose(const std::array<Enclosure, 3>& x) {
    const Enclosure& c = x[0];
    if (!c.known() || (c.error > 0 && std::fabs(c.value) <= c.error)) return either_of(x[1], x[2]);
    return c.value != 0 ? x[1] : x[2];
  }

  /// The interval that contains both; undecided if they are far apart, or not finite.
  Enclosure either_of(const Enclosure& a, const Enclosure& b) {
    const Long low = std::min(a.value - a.error, b.value - b.error);
    const Long high = std::max(a.value + a.error, b.value + b.error);
    const Long middle = (low + high) / 2;
    const Long error = (high - low) / 2 + ulp<double>(middle) / 2;
    const bool finite = std::isfinite(a.value) && std::isfinite(b.value) && std::isfinite(error);
    if (finite && error <= kLost * std::max(std::fabs(middle), Long(1))) return {middle, error};
    decided_ = false;
    return {0, kUnknown};
  }

  /// Largest distance between the op's value at the centres and at the ends of the intervals (and
  /// at zero if an interval contains it); infinite if only some of the results are finite.
  Long spread(Op op, const std::array<Enclosure, 3>& x) {
    const Samples a = samples(op, x[0], 0), b = samples(op, x[1], 1), c = samples(op, x[2], 2);
    const Long center = apply<Long>(op, x[0].value, x[1].value, x[2].value);
    Long most = 0;
    for (const Long first : a.used()) {
      for (const Long own : b.used()) {
        const Long second = same_[0] ? first : own;
        for (const Long last : c.used()) {
          const Long third = same_[1] ? first : same_[2] ? second : last;
          most = std::max(most, distance(apply<Long>(op, first, second, third), center));
        }
      }
    }
    return most;
  }

  /// Numbers of an interval at which an op is evaluated.
  struct Samples {
    std::array<Long, 3> at;
    std::size_t count;
    std::span<const Long> used() const { return {at.data(), count}; }
  };

  /// The ends of operand `k`'s interval, and 0 if it contains that; its value alone if it is exact
  /// or has the value of an operand before it.
  Samples samples(Op op, const Enclosure& x, int k) const {
    const bool follows = k == 1 ? same_[0] : k == 2 && (same_[1] || same_[2]);
    const auto [value, error] = x;
    if (error == 0 || k >= arity(op) || follows) return {{value}, 1};
    return {{value - error, value + error, 0}, std::fabs(value) <= error ? 3u : 2u};
  }

  /// |a − b|; infinite if they differ and one of them is not finite.
  static Long distance(Long a, Long b) {
    if (std::isfinite(a) && std::isfinite(b)) return std::fabs(a - b);
    return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : kUnknown;
  }

  template <class T>
  Enclosure settle(Op op, const std::array<Enclosure, 3>& x, Long spread) {
    const Long y = apply<Long>(op, x[0].value, x[1].value, x[2].value);
    if (spread == kUnknown) return unknown(op, x);
    if (is_step(op)) return spread == 0 ? Enclosure{y, 0} : unknown(op, x);
    if (op == Op::Mod && spread > std::fabs(x[1].value) / 2) return unknown(op, x);
    if (!std::isfinite(y) || (y == 0 && spread == 0)) return {y, 0};
    // Twice, because an op may bend between the ends; one more unit, because exact ops round too.
    const Long own = (bound_of<T>(op) + 1) * ulp<T>(std::fabs(y) + spread);
    const Long error = 2 * spread + own + product_rounding<T>(op, x[0].value, x[1].value);
    constexpr Long kLargest = std::numeric_limits<T>::max();
    if (std::fabs(y) - error > kLargest) return {std::copysign(kUnknown, y), 0};
    if (std::fabs(y) + error > kLargest) return unknown(op, x);
    if (error > kLost * std::max(std::fabs(y), Long(1))) return unknown(op, x);
    return {y, error};
  }

  Against against_;
  bool decided_ = true;
  std::array<bool, 3> same_;  // equal operands: second and first, third and first, third and second
};

template <class T>
Long exact_leaf(const Node& node, const Inputs<T>& in) {
  const auto* const space = leaf_space(node.op, in);
  return static_cast<Long>(space != nullptr ? (*space)[node.slot()]
                                            : static_cast<T>(node.literal()));
}

/// True if a program is not decided because of this node. A comparison may be open if what reads it
/// is known both ways.
bool is_open(const Node& node, const Carried& carried) {
  return !carried.decided && !info(node.op).boolean;
}

std::array<Enclosure, 3> operands_of(const Node& node, std::span<const Enclosure> nodes) {
  std::array<Enclosure, 3> x;
  for (std::size_t k = 0; k < node.operands().size(); ++k) x[k] = nodes[node.args[k]];
  return x;
}

/// The composite op of three parameters, expanded.
const Program& parts(Op op) {
  static const std::vector<Program>& programs = *new std::vector<Program>([] {
    std::vector<Program> made(kOpCount);
    for (const OpInfo& row : kOps) {
      if (!row.composite) continue;
      Graph graph;
      std::array<Id, 3> p{};
      for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(Op::Parameter, k);
      const Id y = graph.add(row.op, p[0], p[1], p[2]);
      made[static_cast<std::size_t>(row.op)] =
          expand(graph.extract(std::array{y}, {.parameters = 3}));
    }
    return made;
  }());
  return programs[static_cast<std::size_t>(op)];
}

template <class T>
Carried carry_parts(const Program& program, const std::array<Enclosure, 3>& x, Against against) {
  std::vector<Enclosure> values;
  bool decided = true;
  for (const Node& node : program.nodes) {
    if (node.op == Op::Parameter) {
      values.push_back(x[node.slot()]);
    } else if (is_leaf(node.op)) {
      values.push_back({static_cast<Long>(static_cast<T>(node.literal())), 0});
    } else {
      const Carried part = Step(node, against).run<T>(node.op, operands_of(node, values));
      values.push_back(part.enclosure);
      if (is_open(node, part)) decided = false;
    }
  }
  return {values[program.outputs[0]], decided};
}

}  // namespace

template <class T>
Long ulp(Long x) {
  using Limits = std::numeric_limits<T>;
  int exponent = Limits::min_exponent;
  if (std::isfinite(x) && x != 0) std::frexp(x, &exponent);
  if (!std::isfinite(x)) exponent = Limits::max_exponent;
  exponent = std::clamp(exponent, Limits::min_exponent, Limits::max_exponent);
  return std::ldexp(Long(1), exponent - Limits::digits);
}

template <class T>
Deviation deviation(Op op, const std::array<T, 3>& x, T got) {
  if (exact<T>(op)) {
    const T expected = apply<T>(op, x[0], x[1], x[2]);
    return {expected, distance<T>(expected, got), same_bits(expected, got)};
  }
  const Long expected = apply<Long>(op, x[0], x[1], x[2]);
  const double far = distance<T>(expected, got);
  const Long extra = product_rounding<T>(op, x[0], x[1]) / ulp<T>(expected);
  const Long rounding = info(op).rounds_product ? Long(1) : Long(0);
  return {expected, far, far <= bound_of<T>(op) + extra + rounding};
}

bool Enclosure::known() const { return error != kUnknown; }

bool Enclosure::contains(Long got) const {
  if (!known()) return true;
  if (std::isnan(value)) return std::isnan(got);
  if (std::isinf(value)) return got == value;
  return std::fabs(got - value) <= error;
}

template <class T>
Carried carry(const Node& node, std::span<const Enclosure> nodes, Against against) {
  const std::array<Enclosure, 3> x = operands_of(node, nodes);
  if (info(node.op).composite) return carry_parts<T>(parts(node.op), x, against);
  return Step(node, against).run<T>(node.op, x);
}

template <class T>
RunningError running_error(const Program& program, const Inputs<T>& inputs, Against against) {
  evaluate_nodes(program, inputs);  // checks the slots
  RunningError result;
  result.nodes.reserve(program.nodes.size());
  for (const Node& node : program.nodes) {
    if (is_leaf(node.op)) {
      result.nodes.push_back({exact_leaf(node, inputs), 0});
      continue;
    }
    const Carried carried = carry<T>(node, result.nodes, against);
    result.nodes.push_back(carried.enclosure);
    if (is_open(node, carried)) result.decided = false;
  }
  for (const Id output : program.outputs) {
    if (info(program.nodes[output].op).boolean && is_either(result.nodes[output]))
      result.decided = false;
  }
  return result;
}

#define TG_INSTANTIATE(T)                                                      \
  template Long ulp<T>(Long);                                                  \
  template Deviation deviation<T>(Op, const std::array<T, 3>&, T);             \
  template Carried carry<T>(const Node&, std::span<const Enclosure>, Against); \
  template RunningError running_error<T>(const Program&, const Inputs<T>&, Against);
TG_INSTANTIATE(float)
TG_INSTANTIATE(double)
#undef TG_INSTANTIATE

}  // namespace topograd::ir
