// Residual blocks with long expressions, which are evaluated node by node on the host.
#pragma once

#include "../../autodiff/node_sweep.hpp"
#include "../../autodiff/rolled_sweep.hpp"
#include "../../ir/evaluate.hpp"
#include "../host_residual.hpp"
#include "../value/tape.hpp"
#include "../value/value.hpp"
#include "extract.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd::detail {

/// Rows of a program of arrays. What needs the operations on numbers one by one, such as kernels,
/// has them written when it asks.
class ArrayExpression {
 public:
  using Workspace = autodiff::NodeSweep::Workspace;
  using Column = autodiff::NodeSweep::Column;

  virtual ~ArrayExpression() = default;

  virtual std::size_t rows() const = 0;
  /// Scalars of the problem that it reads, ascending: the slots of `in` and of columns.
  virtual std::span<const std::uint32_t> parameters() const = 0;

  /// As those of NodeSweep, forward, with its bits.
  ///
  ///   in  parameters by slot, and all numbers of the problem's data arrays
  virtual void evaluate(const ir::Inputs<double>& in, std::span<double> out,
                        Workspace& work) const = 0;
  /// False, with nothing of use written, where derivatives depend on more than the operations: of a
  /// root at 0.
  virtual bool linearize(const ir::Inputs<double>& in, std::span<double> out,
                         std::span<const Column> columns, Workspace& work) const = 0;

  /// The rows as values of this thread's tape. Cost: linear in operations on numbers.
  virtual std::vector<Value> write() const = 0;

  /// Operations on arrays, and on numbers.
  virtual std::size_t array_operations() const = 0;
  virtual std::size_t operations() const = 0;
  /// Hashes the operations and what they read, without numbers.
  virtual std::uint64_t hash() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Bytes of a Workspace that has derivatives.
  virtual std::size_t work_bytes() const = 0;
};

/// Finds what rows of a tape need. Its memory is used again from call to call.
///
/// Cost of a call: what the rows need.
class TapeParts {
 public:
  /// Operations that rows need.
  std::size_t count_operations(std::span<const TapeNode> nodes,
                               std::span<const std::uint32_t> rows);
  /// Writes the rows as a tape of what they need. Valid until the next call.
  RawTape extract(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows);

 private:
  void find_needed(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows);

  std::vector<std::uint32_t> seen_, where_;  // by node
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> open_;  // what the last rows need
  std::vector<TapeNode> part_;
  std::vector<std::uint32_t> part_rows_;
};

/// Predicted seconds of an evaluation with derivatives, node by node on the host.
///
///   blocks  that share the evaluation
double swept_seconds(std::size_t operations, std::size_t unknowns, std::size_t blocks);

/// Predicted seconds of an evaluation with derivatives by kernels of the interpreter: of blocks
/// with an expression of their own each.
///
/// Blocks of as many operations are taken for instances of one topology.
class KernelTime {
 public:
  void add(std::size_t operations) {
    ++instances_[operations];
    total_ += operations;
  }
  std::size_t operations() const { return total_; }
  /// Seconds of one such set of blocks, in a problem that has `alike` of them.
  double seconds(std::size_t alike) const;
  /// No set of blocks with so many operations takes less than this.
  double least_seconds() const;

 private:
  std::unordered_map<std::size_t, std::size_t> instances_;  // by operations
  std::size_t total_ = 0;
};

}  // namespace topograd::detail

namespace topograd {
struct HostBlock;
struct ResidualOptions;
}  // namespace topograd

namespace topograd::detail {

/// A residual block whose expression is a long tape: a functor over all data, a sum of many terms,
/// the steps of an integrator.
///
/// Kernels of such a topology take longer to make than to run, and an interpreter or a device gains
/// nothing from the few instances. So the block is a HostResidual whose values and derivatives are
/// sweeps over its nodes.
class LongBlock final : public HostResidual {
 public:
  /// The unknowns that the block reads, as blocks of arrays.
  struct Arguments {
    std::vector<std::uint32_t> offsets, widths;
  };

  ///   state  of the problem, which owns the block
  LongBlock(const ProblemState& state, const RawTape& raw, const PlainProgram& plain);
  /// Takes a program of arrays, whose tape is written when it is asked for.
  LongBlock(const ProblemState& state, std::shared_ptr<const ArrayExpression> arrays);

  int rows() const override { return static_cast<int>(row_count_); }
  bool evaluate(const double* const* blocks, double* residuals, double** jacobians) const override;

  /// Values and derivatives at a point, for blocks that have some of the rows each.
  struct Shared {
    std::vector<double> residuals;
    std::vector<std::vector<double>> jacobians;  ///< by argument: rows() x width
  };
  /// Evaluated once for each point and thread: the next call reuses what this one returns.
  const Shared& shared(const double* const* blocks, bool derivatives) const;

  /// Adds Σ weights[i] ∇²rᵢ p to out, where x, p and out are of all unknowns. False, and nothing
  /// added, if the expression has kinks (autodiff::CurvatureSweep).
  bool add_curvature(std::span<const double> x, std::span<const double> weights,
                     std::span<const double> p, std::span<double> out) const;

  /// The blocks that scalars, ascending, are in.
  static Arguments arguments_of(const ProblemState& state, std::span<const std::uint32_t> scalars);

  RawTape tape() const { return arrays_ ? written().tape() : RawTape{nodes_, rows_}; }
  const Arguments& arguments() const { return arguments_; }
  std::size_t unknowns() const { return unknowns_.size(); }
  std::size_t operations() const;
  std::size_t bytes() const;
  /// Without label and blocks.
  LongExpression description() const;

 private:
  /// Coordinate of an argument.
  struct Unknown {
    std::uint32_t argument = 0, coordinate = 0;
  };
  /// A data slot: its number, or an entry of the problem's data arrays.
  struct Datum {
    double number = 0;
    std::uint32_t entry = 0;
    bool bound = false;
  };

  /// The unknowns of an evaluation, and the versions of the data and uniforms that it read.
  struct Point;
  struct Inputs;
  void read_data(Inputs& numbers) const;
  void choose_sweep(const ir::Program& program);
  void find_unknowns(std::span<const std::uint32_t> scalars);
  /// Returns the same block as operations on numbers, where this one is of arrays.
  const LongBlock& written() const;
  Point point(const double* const* blocks) const;

  const ProblemState& state_;
  std::uint64_t serial_;  // of no other block of the process
  std::size_t row_count_;
  std::shared_ptr<const ArrayExpression> arrays_;  // null: the tape says all
  std::vector<TapeNode> nodes_;
  std::vector<std::uint32_t> rows_;
  std::optional<autodiff::RolledSweep> rolled_;
  bool is_backward_ = false;                  // derivatives of the loops
  std::optional<autodiff::NodeSweep> sweep_;  // if it is not rolled
  LongExpression description_;                // of how it was decided
  Arguments arguments_;
  std::vector<Unknown> unknowns_;  // by parameter slot
  std::vector<Datum> data_;
  std::vector<std::uint32_t> uniforms_;
  mutable std::once_flag written_made_;
  mutable std::unique_ptr<const LongBlock> written_;
  mutable std::once_flag curvature_made_;
  mutable std::optional<autodiff::CurvatureSweep> curvature_;  // made when it is asked for
};

/// Some rows of a long block, as a residual block with a loss of its own.
class LongRows final : public HostResidual {
 public:
  LongRows(std::shared_ptr<const LongBlock> whole, std::size_t first, std::size_t rows)
      : whole_(std::move(whole)), first_(first), rows_(rows) {}

  int rows() const override { return static_cast<int>(rows_); }
  bool evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    return evaluate_run(rows_, blocks, residuals, jacobians);
  }
  Place place() const override { return {whole_.get(), first_}; }
  bool evaluate_run(std::size_t rows, const double* const* blocks, double* residuals,
                    double** jacobians) const override;

  const LongBlock& whole() const { return *whole_; }
  std::size_t first() const { return first_; }

 private:
  std::shared_ptr<const LongBlock> whole_;
  std::size_t first_, rows_;
};

/// The long blocks of a problem.
class LongBlocks {
 public:
  /// Adds the tape as a long block if it is one: more nodes than kLeastNodes, no branches, and not
  /// more unknowns than kMostUnknowns or blocks of its structure than kMostAlike, unless kernels
  /// are predicted to take more time. Returns its id, or nothing.
  ///
  /// Throws what extract() throws.
  std::optional<std::uint64_t> add(ProblemState& state, const RawTape& raw,
                                   const ResidualOptions& options, const Caller& caller);
  /// Adds a block for each `width` rows of the tape, which share its evaluation. Returns the id of
  /// the first, or nothing where add() does.
  ///
  ///   least  nodes of a tape that is long
  std::optional<std::uint64_t> add_parts(ProblemState& state, const RawTape& raw, std::size_t width,
                                         const ResidualOptions& options, const Caller& caller,
                                         std::size_t least);
  /// Adds a block for each `width` rows of a program of arrays, which share its evaluation. Returns
  /// the id of the first, or nothing, as add() does.
  std::optional<std::uint64_t> add_arrays(ProblemState& state,
                                          std::shared_ptr<const ArrayExpression> arrays,
                                          std::size_t width, const ResidualOptions& options);
  /// Gives host blocks, whose rows follow one another on the tape, one evaluation that they share.
  /// False if the tape has too many unknowns or numbers for it.
  bool share(ProblemState& state, const RawTape& raw, std::span<const std::uint64_t> ids);
  /// Makes a host block that was taken out an instance of a topology.
  static void put_back(ProblemState& state, const RawTape& raw, const HostBlock& block);
  /// Makes all blocks instances of topologies.
  void trace(ProblemState& state);
  /// Long blocks that one instance of a topology stands for.
  struct Instance {
    std::uint64_t id = 0;
    std::vector<HostBlock> blocks;
  };
  /// As trace(), but rows without a loss that follow one another and share their evaluation become
  /// one instance, and what has no loss can be put back.
  std::vector<Instance> trace_for_now(ProblemState& state);
  /// Makes the instances long blocks again.
  static void put_back(ProblemState& state, std::vector<Instance> instances);
  /// Makes them instances of topologies if most of the work is in other residuals, whose backend
  /// they would keep from making the steps. Blocks that share their evaluation stay.
  void settle(ProblemState& state);
  /// The Hessian of the cost times p, if all blocks of the problem are long ones without kinks.
  ///
  ///   x, p, out    of all unknowns
  ///   with_losses  false: as if no block had a robust loss
  ///
  /// Returns false if there are other blocks. Memory: a few numbers for each operation.
  bool hvp(const ProblemState& state, std::span<const double> x, std::span<const double> p,
           bool with_losses, std::span<double> out) const;
  /// Those that are not topologies, in the order of adding.
  std::vector<LongExpression> describe(const ProblemState& state) const;

  /// Nodes of a tape, leaves included, from which on it is long.
  static constexpr std::size_t kLeastNodes = 1024;
  /// Blocks of one structure: with more of them the interpreter's lanes are full, and predicted
  /// times decide.
  static constexpr std::size_t kMostAlike = 16;
  /// Unknowns of a block: with more of them products with the Jacobian are better than a factor,
  /// and predicted times decide.
  static constexpr std::size_t kMostUnknowns = 256;
  /// Numbers of a block's Jacobian, which is dense.
  static constexpr std::size_t kMostDerivatives = std::size_t{1} << 24;
  /// Operations of a step: with more of them it is faster to evaluate these op by op.
  static constexpr std::size_t kMostInStep = 64;
  /// Operations of a block, from which on memory decides.
  static constexpr std::size_t kManyOperations = std::size_t{1} << 18;

 private:
  struct Added {
    std::shared_ptr<const LongBlock> block;
    std::shared_ptr<const LongRows> part;  ///< null: the whole block
    std::uint64_t hash = 0;
    std::uint32_t label = 0;
    std::uint64_t id = 0;
  };
  /// Blocks of one structure.
  struct Alike {
    std::size_t count = 0;
    std::optional<bool> get_kernels;  ///< decided when there are many
  };
  /// True for a block of a structure that has so many blocks that kernels serve better: those that
  /// were added get them.
  bool are_many(ProblemState& state, std::uint64_t hash);
  std::shared_ptr<const LongBlock> make(ProblemState& state, const RawTape& raw, std::uint64_t hash,
                                        std::size_t width, const Caller& caller);
  std::uint64_t append_parts(ProblemState& state, const std::shared_ptr<const LongBlock>& block,
                             std::uint64_t hash, std::size_t width, const ResidualOptions& options);
  std::uint64_t append(ProblemState& state, Added added, const ResidualOptions& options);
  void trace(ProblemState& state, const Added& added);
  static void add_products(const HostBlock& block, std::span<const double> x,
                           std::span<const double> p, bool with_losses, std::span<double> weights,
                           std::span<double> out);
  template <class Chosen>
  void trace_if(ProblemState& state, const Chosen& chosen);

  std::vector<Added> added_;
  std::unordered_map<std::uint64_t, Alike> seen_;  // by hash
  TapeParts parts_;
};

}  // namespace topograd::detail
