// A problem during a solve: its lock, its end, and the weights of constraints, which change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../host_residual.hpp"
#include "../problem.hpp"

namespace topograd {

/// Sets the numbers of the residuals that penalise constraints (blocks.hpp): r =
/// w (s − d c), and of barriers −w log (c + s). They change during a solve, without compiling or
/// planning. In new rows w and s are 0, and d is 1.
class Penalties {
 public:
  explicit Penalties(Problem& problem) : problem_(problem) {}

  /// Number of the first row of constraints, and of these rows.
  std::uint64_t first_row() const;
  std::size_t rows() const { return problem_.constraint_count(); }

  /// Replaces w of all constraints. Cost: constant.
  void set_weight(double weight) { set_weights(weight, weight); }
  /// The same for each kind.
  void set_weights(double equalities, double inequalities);
  /// Replaces s or d, one number for each row. Cost: linear in the rows.
  void set_shifts(std::span<const double> shifts) { set_column(0, shifts); }
  void set_scales(std::span<const double> scales) { set_column(1, scales); }

  /// c of a topology of constraints as the user wrote it. Its batch has more columns, at the end.
  static const ir::Program& plain(const Problem& problem, std::size_t topology);
  /// The barrier of a topology of inequalities, an energy on the same batch. It lives as long as
  /// the problem's topologies.
  static const ir::Topology& barrier(const Problem& problem, std::size_t topology);

 private:
  /// Writes the first or the second half of the hidden columns.
  void set_column(std::uint32_t half, std::span<const double> numbers);

  Problem& problem_;
};

namespace detail {
class ArrayExpression;
struct SolveInProgress;
}  // namespace detail

/// Prevents changes of a problem during its life, and keeps the problem's state alive.
///
/// The changes that the library itself makes during a solve (Branches) stay possible.
class ProblemUse {
 public:
  /// A second view of a problem, for solves: it stays valid when the first view ends.
  static Problem view_of(Problem& problem);
  /// True if both are views of one problem.
  static bool is_same(const Problem& a, const Problem& b) { return a.state_ == b.state_; }

  /// Decides how the residual blocks with long expressions are evaluated (problem/long_block.hpp):
  /// node by node on the host, or by kernels like the others. The rows and handles of all blocks
  /// stay.
  ///
  ///   kernels  true: by kernels, which have second derivatives
  static void settle_long_blocks(const Problem& problem, bool kernels);
  /// The long expressions that are evaluated on the host, in the order of adding. Removed blocks
  /// count.
  static std::vector<LongExpression> long_expressions(const Problem& problem);

  /// The Hessian of the cost times p at x, if all blocks are long expressions without kinks
  /// (LongBlocks::hvp); otherwise false.
  static bool hvp_of_long_blocks(const Problem& problem, std::span<const double> x,
                                 std::span<const double> p, bool with_losses,
                                 std::span<double> out);

  /// For the values that shared() marked: which are stored and which are inlined.
  static std::vector<SharedValues> shared_values(const Problem& problem);

  /// Adds a residual block for each `width` rows. Rows that are the ends of one long computation
  /// share its evaluation, as those of one block do, and each block has a loss of its own.
  ///
  ///
  ///   whatever_the_size  also if the rows have few operations
  ///
  /// Throws Error{Shape} if `width` does not divide the rows, and what add_residual() throws.
  static Residuals add_sharing(Problem& problem, std::span<const Value> rows, std::size_t width,
                               const ResidualOptions& options, bool whatever_the_size = false);
  /// Adds rows without a loss, whose blocks may be any: as one block if rows that are blocks of
  /// their own would repeat most of their operations, as those of a simulation, else one by one.
  static void add_any(Problem& problem, std::span<const Value> rows);
  /// The same for the rows of a program of arrays. Nothing, and nothing is added, if they are not
  /// to be one evaluation on the host (LongBlocks::add_arrays).
  static std::optional<Residuals> add_arrays(Problem& problem,
                                             std::shared_ptr<const detail::ArrayExpression> arrays,
                                             std::size_t width, const ResidualOptions& options);

  /// Checks that the problem of an object still exists, before a call on the object.
  ///
  ///   problem  compared by address, not read
  ///   view     of the problem, made while it existed
  ///   user     for the message: "solver"
  ///
  /// Throws Error{InvalidArgument} if the problem has been destroyed. Does not detect a problem
  /// that had been moved from before.
  static void require_present(const Problem& problem, const Problem& view, const char* user);

  ///   call        for messages: "solve"
  ///   before_end  runs if the Problem is destroyed meanwhile, while its parameters still exist;
  ///               does not throw
  ///
  /// Throws Error{InvalidArgument} if the problem is in use already, or was moved from.
  ProblemUse(const Problem& problem, const char* call, std::function<void()> before_end);
  ~ProblemUse();
  ProblemUse(const ProblemUse&) = delete;
  ProblemUse& operator=(const ProblemUse&) = delete;

  /// True if the caller's Problem has been destroyed.
  bool ended() const;

 private:
  friend class LongBlocksTraced;
  static detail::ProblemState& state_of(const Problem& problem);

  std::shared_ptr<detail::ProblemState> state_;
  std::unique_ptr<detail::SolveInProgress> solve_;
};

/// For as long as it lives, residual blocks with long expressions have kernels. Rows without a loss
/// that share an evaluation are one block meanwhile, whose handle is that of the first row.
class LongBlocksTraced {
 public:
  /// The problem outlives it, and gets no other blocks meanwhile.
  explicit LongBlocksTraced(const Problem& problem);
  ~LongBlocksTraced();
  LongBlocksTraced(const LongBlocksTraced&) = delete;
  LongBlocksTraced& operator=(const LongBlocksTraced&) = delete;

 private:
  struct Traced;
  std::unique_ptr<Traced> traced_;
};

}  // namespace topograd
