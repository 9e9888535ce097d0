// Derivative rules, one line of calculus per op, and the expressions in which they are written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../ir/program.hpp"

namespace topograd::autodiff {

/// How a value can become infinite or NaN, given finite parameters, tangents and seeds. Ascending.
enum class Grade : std::uint8_t {
  Constant,  ///< a finite literal
  Tame,      ///< affine in parameters or bounded: finite if they are
  Plain,     ///< finite unless it overflows, reads non-finite data, or leaves an op's domain
  Wild       ///< may be infinite at ordinary points: quotients, exponentials, logarithms
};

/// Decides where a derivative product needs the zero rule (below).
struct Traits {
  Grade grade = Grade::Wild;
  bool masked = false;       ///< may be exactly 0 because of a select, a comparison, a sign
  bool nonnegative = false;  ///< >= 0 or NaN
  bool away = false;         ///< magnitude at least some positive constant, or NaN
};

/// Traits of a node from those of its operands (none for leaves). Unknown ops are Wild.
Traits infer(const ir::Node& node, std::span<const Traits> operands);

/// A graph that starts as a program and grows by its derivatives, with the traits of its nodes.
class Builder {
 public:
  explicit Builder(const ir::Program& f);

  ir::Graph& graph() { return graph_; }
  const ir::Node& operator[](ir::Id id) const { return graph_[id]; }
  /// Nodes of f: 0 .. size() - 1, operands first.
  ir::Id size() const { return size_; }
  const std::vector<ir::Id>& outputs() const { return outputs_; }
  const ir::LeafCounts& leaves() const { return leaves_; }
  const Traits& traits(ir::Id id);
  /// Adjoints with a factor that may be infinite where the value is finite (below).
  bool is_steep(ir::Id id) const { return id < steep_.size() && steep_[id]; }
  void mark_steep(ir::Id id) {
    if (graph_[id].op == ir::Op::Literal) return;
    if (steep_.size() <= id) steep_.resize(graph_.size());
    steep_[id] = true;
  }
  /// Returns the optimised program of these outputs (kNone: the literal 0) with f's guards.
  ir::Program extract(std::span<const ir::Id> outputs, const ir::LeafCounts& leaves);

 private:
  ir::Graph graph_;
  ir::Id size_ = 0;
  std::vector<ir::Id> outputs_;
  std::vector<ir::Guard> guards_;
  ir::LeafCounts leaves_;
  std::vector<Traits> traits_;  // of the first nodes of the graph; grows on request
  std::vector<bool> steep_;     // of nodes that are marked; the same
};

/// A node of a builder's graph.
struct Expr {
  Builder* builder = nullptr;
  ir::Id id = ir::kNone;

  Expr make(ir::Op op) const { return {builder, builder->graph().add(op, id)}; }
  Expr make(ir::Op op, Expr b) const { return {builder, builder->graph().add(op, id, b.id)}; }
  Expr make(ir::Op op, Expr b, Expr c) const {
    return {builder, builder->graph().add(op, id, b.id, c.id)};
  }
  Expr literal(double value) const { return {builder, builder->graph().literal(value)}; }
  const Traits& traits() const { return builder->traits(id); }
  bool is_literal(double value) const {
    const ir::Node& n = builder->graph()[id];
    return n.op == ir::Op::Literal && n.literal() == value;
  }
};

inline Expr operator+(Expr a, Expr b) { return a.make(ir::Op::Add, b); }
inline Expr operator-(Expr a, Expr b) { return a.make(ir::Op::Sub, b); }
inline Expr operator*(Expr a, Expr b) { return a.make(ir::Op::Mul, b); }
inline Expr operator/(Expr a, Expr b) { return a.make(ir::Op::Div, b); }
inline Expr operator-(Expr a) { return a.make(ir::Op::Neg); }
inline Expr operator+(Expr a, double b) { return a + a.literal(b); }
inline Expr operator-(Expr a, double b) { return a - a.literal(b); }
inline Expr operator*(double a, Expr b) { return b.literal(a) * b; }
inline Expr operator+(double a, Expr b) { return b.literal(a) + b; }
inline Expr operator-(double a, Expr b) { return b.literal(a) - b; }
inline Expr operator/(double a, Expr b) { return b.literal(a) / b; }
inline Expr operator<(Expr a, Expr b) { return a.make(ir::Op::Lt, b); }
inline Expr operator>(Expr a, Expr b) { return a.make(ir::Op::Gt, b); }
inline Expr operator==(Expr a, Expr b) { return a.make(ir::Op::Eq, b); }

inline Expr reciprocal(Expr a) { return a.make(ir::Op::Reciprocal); }
inline Expr square(Expr a) { return a.make(ir::Op::Square); }
inline Expr rsqrt(Expr a) { return a.make(ir::Op::Rsqrt); }
inline Expr exp(Expr a) { return a.make(ir::Op::Exp); }
inline Expr log(Expr a) { return a.make(ir::Op::Log); }
inline Expr sin(Expr a) { return a.make(ir::Op::Sin); }
inline Expr cos(Expr a) { return a.make(ir::Op::Cos); }
inline Expr sinh(Expr a) { return a.make(ir::Op::Sinh); }
inline Expr cosh(Expr a) { return a.make(ir::Op::Cosh); }
inline Expr sign(Expr a) { return a.make(ir::Op::Sign); }
inline Expr floor(Expr a) { return a.make(ir::Op::Floor); }
inline Expr pow(Expr a, Expr b) { return a.make(ir::Op::Pow, b); }
inline Expr select(Expr condition, Expr a, Expr b) { return condition.make(ir::Op::Select, a, b); }
/// a * b, or 0 if a is 0.
inline Expr zmul(Expr a, Expr b) { return a.make(ir::Op::Zmul, b); }
/// a / b, or 0 if b is 0.
inline Expr quotient_or_zero(Expr a, Expr b) {
  const Expr zero = a.literal(0);
  return select(b == zero, zero, a / b);
}

/// Derivative of y = op(a, b, c) by one operand, for both modes.
struct Partial {
  enum class Kind {
    Zero,        ///< independent of the operand except for jumps
    One,         ///< v -> v
    MinusOne,    ///< v -> -v
    Factor,      ///< v -> v * d
    Steep,       ///< v -> v * d; d may be infinite where y is finite
    Guarded,     ///< v -> 0 if `at` is true, else v * d, where d is finite
    Twice,       ///< v -> (v + v) * d
    Mask,        ///< v -> v * d, or 0 if d is 0
    WhereTrue,   ///< v -> v if d is true, else 0
    WhereFalse,  ///< v -> 0 if d is true, else v
    Above,       ///< v -> v / 2 if `at` is true; else v if d is true, else 0
    Below,       ///< v -> v / 2 if `at` is true; else 0 if d is true, else v
  };
  Kind kind = Kind::Zero;
  Expr d = {};
  Expr at = {};
};

/// Derivatives of the node y = op(a, b, c) of `builder`'s graph by its operands. At kinks:
///
///   abs'(0) = 0; min and max give the derivative to the chosen side, on ties half to each operand
///   sign, floor, ceil, round, trunc and comparisons have derivative 0
///   mod(a, b): 1 by a, -floor(a / b) by b
///   sqrt'(0), log'(0) and the like keep their mathematical value, infinity; the root of a value
///   that is never negative (a sum of squares: a length) has derivative 0 at 0
///   pow(x, y) by y is 0 where x is 0 and y > 0; NaN where x < 0
///   atan2 at (0, 0) and hypot at (0, 0) have derivative 0
///
/// Composite ops have been expanded before. Throws Error{Internal} if one is met.
/// Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3.
std::array<Partial, 3> partials(Builder& builder, ir::Id y);

/// Propagates the adjoint g of y to an operand. A zero adjoint times an infinite or NaN derivative
/// is 0: this is a Zmul if the derivative may be infinite, or if a branch may have masked g. A zero
/// derivative times an adjoint that a Steep one made infinite is 0 as well, as in push().
Expr pull(const Partial& partial, Expr g);

/// Propagates the tangent t of an operand to y. A zero tangent times an infinite derivative is 0,
/// and so is a zero derivative times an infinite tangent: pull() gives the same for that path.
Expr push(const Partial& partial, Expr t);

}  // namespace topograd::autodiff
