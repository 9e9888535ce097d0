// Residual blocks that are evaluated on the host: opaque code, and long expressions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// A NaN in the places that user code is to write. What is left of it was not written.
inline double unwritten() { return std::bit_cast<double>(std::uint64_t{0x7ff8'756e'7772'6974}); }
inline bool is_unwritten(double number) {
  return std::bit_cast<std::uint64_t>(number) == std::bit_cast<std::uint64_t>(unwritten());
}

/// A residual block with values and derivatives from user code, for code that cannot be traced.
/// Solves with such blocks make their steps on the host and say so in the report.
class HostResidual {
 public:
  virtual ~HostResidual() = default;

  /// Number of rows, always the same.
  virtual int rows() const = 0;
  /// Evaluates at a point.
  ///
  ///   blocks     values of each parameter block
  ///   residuals  rows() numbers, to be written
  ///   jacobians  null if only residuals are wanted; else for each block null (not wanted) or
  ///              rows() x width numbers, row by row, to be written
  ///
  /// Returns false if there is no value: a trial point is then rejected, a start is an error. A
  /// number that is not written is NaN.
  virtual bool evaluate(const double* const* blocks, double* residuals,
                        double** jacobians) const = 0;

  /// Rows of a computation that several blocks share.
  struct Place {
    const void* computation = nullptr;  ///< null: this block shares none
    std::size_t row = 0;                ///< the first one of the block
  };
  /// Blocks of one computation are over the same blocks of unknowns.
  virtual Place place() const { return {}; }
  /// evaluate() of this block and of those with the next rows of the computation.
  ///
  ///   rows  of all of these blocks
  virtual bool evaluate_run(std::size_t /*rows*/, const double* const* blocks, double* residuals,
                            double** jacobians) const {
    return evaluate(blocks, residuals, jacobians);
  }

  /// Called at each point before the blocks of a problem are evaluated there, for work that they
  /// share. Only the first block of the problem is called.
  ///
  ///   x            all unknowns, as the problem orders them
  ///   derivatives  true if Jacobians are wanted, too
  virtual void prepare(std::span<const double> /*x*/, bool /*derivatives*/) const {}
};

class Problem;
class Value;
struct Vec2;
struct Vec3;
struct Vec4;
struct ResidualOptions;
struct Residuals;

/// How the nodes of a long expression are evaluated.
enum class Rolling : std::uint8_t {
  loop,       ///< steps that repeat are stored once and evaluated as a loop
  backward,   ///< derivatives go backward through all nodes: far more unknowns than rows
  wide,       ///< each step has many operations, which are evaluated op by op
  irregular,  ///< most of it does not repeat itself, or reads what has no fixed distance
  arrays,     ///< operations on whole arrays, as a program recorded them
};

/// A loop of a long expression. Each step is a level of one instance; without states there is one
/// level, whose instances are the steps.
struct LongLoop {
  std::size_t steps = 0, states = 0;
  std::size_t operations = 0;  ///< of one step
  std::size_t levels() const { return states > 0 ? steps : 1; }
  std::size_t instances() const { return states > 0 ? 1 : steps; }  ///< of a level
  bool operator==(const LongLoop&) const = default;
};

/// A residual block with a long expression, or several that share its evaluation.
struct LongExpression {
  std::string label;
  std::size_t blocks = 0, rows = 0, unknowns = 0;
  std::size_t operations = 0;  ///< of all rows together
  Rolling rolling = Rolling::irregular;
  std::size_t steps = 0;             ///< of the longest loop that was found; 0: none
  std::size_t states = 0;            ///< numbers that a step of it hands on
  std::size_t step_operations = 0;   ///< of one step
  std::vector<LongLoop> loops;       ///< in the order of evaluation
  double repeated = 0;               ///< irregular: share of the nodes that loops would save
  std::size_t given_up = 0;          ///< irregular: loops that read what has no fixed distance
  std::size_t array_operations = 0;  ///< arrays: operations on whole arrays
  std::size_t bytes = 0;             ///< kept between evaluations
  std::size_t work_bytes = 0;        ///< of an evaluation with derivatives; 0: unknown

  bool operator==(const LongExpression&) const = default;
};

/// Adds a residual block for each `width` rows. Rows that are the ends of one long computation,
/// such as the states of a simulation, share its evaluation, as those of one block do; each block
/// has a loss and an index of its own.
///
/// Rows with fewer than 1,024 nodes in all, and those that one block could not have
/// (docs/modelling.md), are added one block after the other.
///
///   rows   in the order of the blocks
///   width  rows of a block; divides their number
///
/// Throws Error{Shape} for another width and for no rows, and what Problem::add_residual() throws.
Residuals add_shared_residuals(Problem& problem, std::span<const Value> rows,
                               const ResidualOptions& options, std::size_t width = 1);

/// Marks an intermediate value that several residual blocks read, and returns it.
///
/// Blocks that read marked values are collected until the problem is evaluated. Then each group of
/// blocks with a marked value in common is evaluated in the way that is predicted to take less
/// time: stored, by one evaluation on the host in which every marked value is computed once,
/// however many blocks read it; or inlined, as if nothing were marked: each block's topology
/// computes the value again. A group of more than 256 unknowns is inlined, and so are
/// blocks with branches, all where second derivatives are asked for, and all where other residuals
/// have more operations, whose steps they would keep on the host. The report has what was decided,
/// with both times (Summary::shared_values).
///
/// Values and derivatives are the same either way. A leaf, such as an unknown, gets no mark.
Value shared(const Value& v);
Vec2 shared(const Vec2& v);
Vec3 shared(const Vec3& v);
Vec4 shared(const Vec4& v);

/// The choice for marked values: they are stored or inlined. Groups of one structure are counted
/// together.
struct SharedValues {
  std::string label;       ///< of the first block that reads them
  std::size_t values = 0;  ///< marked ones
  std::size_t groups = 0, blocks = 0;
  bool stored = false;                ///< false: inlined
  std::size_t operations_stored = 0;  ///< if each value is computed once
  std::size_t operations_inlined = 0;
  /// Predicted for one evaluation with derivatives, s.
  double seconds_stored = 0, seconds_inlined = 0;

  bool operator==(const SharedValues&) const = default;
};

/// "3 shared values of 9 blocks: inlined; predicted ..."
std::string text(const SharedValues& of);

/// "a loop of 1000 steps, each of 9 operations on 2 states", or why it is none.
std::string text(const LongExpression& expression);

/// How a problem's long expressions and shared values are evaluated, a line for each fact: levels
/// with their instances and operations, what is stored between them, memory, and why a chain is no
/// loop. Empty if there are none. Decides, as the first evaluation does.
std::string explain(const Problem& problem);

}  // namespace topograd
