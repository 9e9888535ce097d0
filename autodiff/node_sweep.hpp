// Values and Jacobians of long programs, computed node by node with numbers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../ir/evaluate.hpp"
#include "../ir/op.hpp"
#include "../ir/program.hpp"

namespace topograd::autodiff {

/// The derivatives of y = op(a, b, c) by its operands, by the rules of rules.hpp.
void any_partials(ir::Op op, double a, double b, double c, double y, double d[3]);

/// The ops of CurvatureSweep: their second derivatives are finite wherever first ones are, and need
/// no care.
bool has_plain_curvature(ir::Op op);

/// The tangents of the derivatives of y = op(a, b), which has plain curvature, from those of a and
/// b.
void tangents_of_partials(ir::Op op, double a, double b, double ta, double tb, double out[2]);

/// d * v, and 0 if one of them is 0, where the other may be infinite.
inline double zero_rule(double d, double v) { return d == 0 || v == 0 ? 0 : d * v; }

/// Values of the most frequent ops; with Partials also d, the derivatives by each operand.
template <bool Partials>
struct OpNumbers {
  static double add(double a, double b, double* d) {
    if constexpr (Partials) d[0] = d[1] = 1;
    return a + b;
  }
  static double sub(double a, double b, double* d) {
    if constexpr (Partials) d[0] = 1, d[1] = -1;
    return a - b;
  }
  static double mul(double a, double b, double* d) {
    if constexpr (Partials) d[0] = b, d[1] = a;
    return a * b;
  }
  static double div(double a, double b, double* d) {
    const double y = a / b;
    if constexpr (Partials) d[0] = 1 / b, d[1] = -(y * d[0]);
    return y;
  }
  static double neg(double a, double* d) {
    if constexpr (Partials) d[0] = -1;
    return -a;
  }
  static double square(double a, double* d) {
    if constexpr (Partials) d[0] = a + a;
    return a * a;
  }
  static double exp(double a, double* d) {
    const double y = std::exp(a);
    if constexpr (Partials) d[0] = y;
    return y;
  }
  ///   guarded  the derivative at 0 is 0
  static double root(double a, bool guarded, double* d) {
    const double y = std::sqrt(a);
    if constexpr (Partials) d[0] = y == 0 && guarded ? 0 : 0.5 / y;
    return y;
  }
  static double any(ir::Op op, double a, double b, double c, bool guarded, double* d) {
    using ir::Op;
    switch (op) {  // NOLINT(clang-diagnostic-switch-enum): any_partials() has the others
      case Op::Add: return add(a, b, d);
      case Op::Sub: return sub(a, b, d);
      case Op::Mul: return mul(a, b, d);
      case Op::Div: return div(a, b, d);
      case Op::Neg: return neg(a, d);
      case Op::Square: return square(a, d);
      case Op::Exp: return exp(a, d);
      case Op::Sqrt: return root(a, guarded, d);
      default: break;
    }
    const double y = ir::apply<double>(op, a, b, c);
    if constexpr (Partials) any_partials(op, a, b, c, y, d);
    return y;
  }
};

/// A program that is evaluated node by node, with the derivatives of each node as numbers.
///
/// derivatives.hpp makes a program of a Jacobian, which pays where many instances share it. For a
/// program of thousands of nodes with few instances, making it costs more than evaluating it. Here
/// nothing is made: the partial derivatives of all nodes are computed beside their values, and
/// tangents (or adjoints) are sums of products of these numbers. The rules are those of rules.hpp,
/// kinks and the zero rule included.
///
/// Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., sections 3.1 and 3.2.
class NodeSweep {
 public:
  /// Derivatives by one parameter: entry of row k is first[k * stride]; null: not wanted.
  struct Column {
    double* first = nullptr;
    std::size_t stride = 1;
  };

  /// Cost: linear in f's nodes. f has no guards that matter: they are ignored.
  explicit NodeSweep(const ir::Program& f);

  std::size_t rows() const { return program_.outputs.size(); }
  std::size_t parameters() const { return program_.leaves.parameters; }
  /// Operations, leaves not counted.
  std::size_t operations() const { return operations_; }
  std::size_t bytes() const;
  /// True if linearize() goes backward: a reverse sweep makes one row, a forward one eight columns
  /// in about three times its time.
  static bool prefers_reverse(std::size_t rows, std::size_t parameters) {
    return 3 * rows < (parameters + 7) / 8 * 8;
  }

  /// Numbers between calls, so that memory is reused. Each thread has its own.
  struct Workspace {
    std::vector<double> values, partials, tangents, adjoints;
  };

  /// The rows.
  ///
  ///   out  rows() numbers
  void evaluate(const ir::Inputs<double>& in, std::span<double> out, Workspace& work) const;

  /// The rows and their derivatives: all numbers of the wanted columns are written.
  ///
  ///   columns  by parameter slot
  ///
  /// Forward sweeps of eight columns each, or a reverse sweep for each row, whichever costs less.
  /// Cost: about evaluate(), plus a multiplication and an addition for each operand and column (or
  /// row). Memory of forward sweeps: that of the tangents that are live at once.
  void linearize(const ir::Inputs<double>& in, std::span<double> out,
                 std::span<const Column> columns, Workspace& work) const;

 private:
  /// An operation that depends on parameters: its edges are first_edge up to the next one's.
  struct Operation {
    ir::Id node = 0;
    std::uint32_t first_edge = 0;
    std::uint32_t slot = 0;  ///< of its tangents
  };
  /// An operand that depends on parameters.
  struct Edge {
    ir::Id from = 0;
    std::uint32_t slot = 0;     ///< of its tangents
    std::uint32_t partial = 0;  ///< index of the operation's derivative by it
  };
  /// Neighbouring nodes with one op, up to the next run.
  struct Run {
    ir::Op op = ir::Op::Literal;
    bool moves = false;  ///< operations that depend on parameters
    ir::Id first = 0;
    std::uint32_t first_partial = 0;
  };
  struct Row {
    ir::Id node = 0;
    std::uint32_t row = 0;
  };

  void list_operations();
  void share_slots();
  void find_runs();
  template <bool Partials>
  void sweep(const ir::Inputs<double>& in, std::span<double> out, Workspace& work) const;
  template <std::size_t W>
  void write_rows(std::span<const Row> rows, std::span<const Column> columns,
                  const double* tangents) const;
  template <std::size_t W, bool Finite>
  void forward(std::span<const Column> columns, std::size_t first, Workspace& work) const;
  template <bool Finite>
  void reverse(const Row& row, std::span<const Column> columns, Workspace& work) const;
  template <bool Finite>
  void differentiate(std::span<const Column> columns, Workspace& work) const;

  ir::Program program_;  // without composite ops and guards
  std::vector<Run> runs_;
  std::vector<Operation> ops_;  // one more at the end, for first_edge
  std::vector<Edge> edges_;
  std::vector<ir::Id> parameters_;           // nodes that are parameters
  std::vector<std::uint32_t> slot_;          // by node: kNoSlot if no parameter moves it
  std::vector<std::uint32_t> op_of_;         // by node: its index in ops_
  std::vector<std::uint8_t> guarded_roots_;  // by node: a root whose derivative at 0 is 0
  std::vector<Row> rows_;                    // ascending by node
  std::uint32_t slots_ = 0, partials_ = 0;
  std::size_t operations_ = 0;
};

/// Products with the second derivatives of a long program's rows, computed node by node with
/// numbers.
///
/// A tangent goes forward beside the values, an adjoint backward with its tangent beside it.
/// Memory: four numbers for each node, however many steps of a loop the nodes are.
///
/// Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., section 5.1.
class CurvatureSweep {
 public:
  /// Nothing if f has an op whose derivatives have kinks, limits or domains that programs of second
  /// derivatives treat with care (derivatives.hpp): abs, min, max, select, lengths, ...
  static std::optional<CurvatureSweep> make(const ir::Program& f);

  std::size_t bytes() const;
  /// Adds Σ weights[i] ∇²rᵢ p to out.
  ///
  ///   weights  one number for each row
  ///   p, out   by parameter slot
  void add(const ir::Inputs<double>& in, std::span<const double> weights, std::span<const double> p,
           std::span<double> out) const;

 private:
  explicit CurvatureSweep(ir::Program f) : program_(std::move(f)) {}

  ir::Program program_;  // without composite ops
};

}  // namespace topograd::autodiff
