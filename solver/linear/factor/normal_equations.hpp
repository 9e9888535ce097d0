// JᵀJ or the Hessian of a whole problem as a sparse matrix, and damped systems of it.
#pragma once

#include "../../../ir/batch/row_storage.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../../runtime/engine/engine.hpp"
#include "../../../runtime/model/model.hpp"
#include "factorization.hpp"
#include "lists.hpp"
#include "panel.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace topograd {

/// Numbers that are not initialised, in large pages if they are many: the threads that write them
/// first take their pages.
class RawNumbers {
 public:
  explicit RawNumbers(std::size_t count = 0)
      : numbers_(count == 0 ? nullptr : Allocator().allocate(count), {count}) {}

  double* data() { return numbers_.get(); }
  const double* data() const { return numbers_.get(); }

 private:
  using Allocator = ir::PageAllocator<double>;
  struct Free {
    std::size_t count;
    void operator()(double* numbers) const { Allocator().deallocate(numbers, count); }
  };
  std::unique_ptr<double, Free> numbers_;
};

/// Jacobians of all terms with residuals, each [instance][row][slot], with zeros for fixed scalars.
class JacobianRows {
 public:
  /// Takes memory when it is refreshed first.
  explicit JacobianRows(const runtime::Model& model);

  /// Reads them at the engine's point.
  void refresh(runtime::Engine& engine);
  /// The numbers of a term; empty for an energy.
  std::span<const double> operator[](std::size_t term) const {
    const double* const first = values_[term].data();
    return {first, first == nullptr ? 0 : sizes_[term]};
  }

 private:
  std::vector<std::size_t> sizes_;  // by term
  std::vector<RawNumbers> values_;
};

/// The lower triangle of JᵀJ, or of the Hessian of the cost, over the free scalars, compressed by
/// columns, rows ascending, with every diagonal entry present.
///
/// Each entry is summed in the order of terms and instances, so that results have the same bits in
/// every run, with any number of threads.
class NormalEquations {
 public:
  /// Finds the pattern. Cost: Σ instances × n² for n parameter slots, and 8 bytes for each run of
  /// adjacent slots with adjacent unknowns, in each column. Throws Error{Unsupported} if there are
  /// 2³¹ entries or more.
  ///
  ///   with_energies  the pattern of the Hessian: energies contribute
  ///   threads        0 = all; results do not depend on it
  ///   left_out       by scalar: 1 = treated as if it were fixed; empty: none
  explicit NormalEquations(const runtime::Model& model, bool with_energies = false, int threads = 0,
                           std::span<const std::uint8_t> left_out = {});

  /// Sums the Jacobians at the engine's point, which does not move.
  void refresh(runtime::Engine& engine);
  /// Sums these Jacobians.
  void refresh(const JacobianRows& jacobians);
  /// Sums the Hessians of all instances, for a matrix made with energies. With `project`, negative
  /// eigenvalues of each Hessian, restricted to its free scalars, are removed first, so that fixed
  /// scalars have no influence.
  void refresh_hessian(runtime::Engine& engine, bool project);
  /// out := −Jᵀw, for a matrix made without energies.
  ///
  ///   w    by row of all terms with residuals    out  by free scalar
  void subtract_products(const JacobianRows& jacobians, std::span<const double> w,
                         std::span<double> out) const;

  std::size_t size() const { return starts_.size() - 1; }           ///< free scalars
  std::span<const std::int32_t> starts() const { return starts_; }  ///< size() + 1
  std::span<const std::int32_t> rows() const { return rows_; }
  std::span<const double> values() const { return values_; }
  double diagonal(std::size_t column) const { return values_[starts_[column]]; }
  /// Position of free scalar k among all scalars.
  std::span<const std::uint32_t> free_scalars() const { return free_; }

 private:
  /// Adjacent columns that the same instances of the same terms read, once each: the free scalars
  /// of a block, usually. The rows of each are those of the one before without the first.
  struct Group {
    std::uint32_t first, width;  // columns
    std::size_t use, run;        // first ones
  };
  /// An instance that reads the scalars of a group.
  struct Use {
    std::uint32_t term, instance;
    std::uint32_t order;     // of orders_: the slots that read rows of the group
    std::uint16_t at, runs;  // where the slots of the columns are there; number of runs
  };
  /// Uses of a group that are summed together: all, or some of many.
  struct Piece {
    std::uint32_t group;
    std::size_t use, end, run;  // first use, the one after the last, first run
    std::size_t part;           // number among pieces of some uses
  };
  /// Part of the order of a use whose scalars are adjacent rows of the group.
  using Run = Panel::Run;
  struct TermValues {
    std::uint32_t rows = 0, slots = 0;
    std::size_t instances = 0;
    std::size_t first_row = 0;     // of its residuals, among those of all terms
    std::vector<double> hessians;  // of the last refresh_hessian(), packed
  };
  /// Instance of a term with energies that reads both free and fixed scalars.
  struct PartlyFree {
    std::size_t term, instance;
    std::vector<std::uint32_t> slots;  // that read free scalars, ascending
  };

  /// By term: column of each parameter slot of each instance.
  using Indices = std::vector<ir::PagedVector<std::uint32_t>>;
  void find_partly_free(const Indices& indices);
  /// By column: 1 = the same instances read it as the one before, both once each.
  std::vector<std::uint8_t> find_joined(const Indices& indices) const;
  void find_groups(const Indices& indices);
  void find_pattern(const Indices& indices);
  /// Appends the columns of a group to the pattern.
  void add_columns(const Group& group, std::span<const std::uint32_t> rows);
  using Order = std::vector<std::uint16_t>;
  using OrderNumbers = std::map<Order, std::uint32_t>;
  /// Its number in orders_, to which a new order is added; `last` is tried first.
  std::uint32_t number_of(const Order& order, std::uint32_t last, OrderNumbers& known);
  /// Appends the runs of a use; returns their number.
  ///
  ///   scalars  by slot    row  of the group, by scalar
  std::uint16_t add_runs(std::span<const std::uint32_t> scalars, const Order& order,
                         std::span<const std::uint32_t> row);
  void find_ranges();
  bool is_part(const Piece& piece) const;
  std::uint32_t rows_of(const Group& group) const {
    return static_cast<std::uint32_t>(starts_[group.first + 1] - starts_[group.first]);
  }
  void write(const Group& group, Panel& panel);
  template <class Sum, class Join>
  void for_pieces(const Sum& sum, const Join& join) const;
  /// Sums all entries: add(use, runs, panel, scratch) adds a use to the panel of its group;
  /// expect(use) is called some uses before.
  template <class F, class Expect>
  void sum_groups(const F& add, const Expect& expect);
  /// Projects again the Hessians that have fixed scalars, without these.
  void project_free_parts(runtime::Engine& engine, std::size_t term);

  std::vector<std::uint32_t> free_;
  std::vector<std::int32_t> starts_, rows_;
  std::vector<double> values_;
  std::vector<TermValues> terms_;
  JacobianRows jacobians_;     // of the last refresh() by an engine
  std::vector<Group> groups_;  // with one more at the end
  std::vector<Piece> pieces_;
  std::size_t parts_ = 0;            // pieces of some uses
  std::vector<std::size_t> ranges_;  // of pieces with about equally many uses
  ir::PagedVector<Use> uses_;
  ir::PagedVector<Run> runs_;
  Lists<std::uint16_t> orders_;         // slots, ascending by their scalars
  std::vector<std::uint8_t> adjacent_;  // by order: 1 = adjacent slots
  std::vector<PartlyFree> partly_free_;
  mutable runtime::cpu::Pool pool_;
};

/// (JᵀJ + D) δ = b over the free scalars of a model, with D diagonal. Results do not depend on the
/// number of threads.
class NormalSystem {
 public:
  virtual ~NormalSystem() = default;

  /// Position of free scalar k among all scalars, ascending.
  virtual std::span<const std::uint32_t> free_scalars() const = 0;
  std::size_t size() const { return free_scalars().size(); }

  /// Reads the Jacobian at the engine's point.
  virtual void refresh(runtime::Engine& engine) = 0;
  /// The diagonal of JᵀJ.
  virtual double diagonal(std::size_t k) const = 0;
  /// The diagonal for the damping, as UndeterminedBlocks has it.
  virtual void damping_diagonal(std::vector<double>& out) const = 0;

  /// Factorises. False if the matrix is not positive definite; solve() must not follow then.
  ///
  ///   damping  D    right  b
  virtual bool factor(std::span<const double> damping, const Eigen::VectorXd& right) = 0;
  /// Solves for the right side of the last factor().
  virtual Eigen::VectorXd solve() = 0;
  /// v·JᵀJ v.
  virtual double square(const Eigen::VectorXd& v) const = 0;

  /// Returns J v, with J as refresh() has read it; empty if the system does not keep its rows.
  virtual std::vector<double> rows_along(const Eigen::VectorXd& /*v*/) const { return {}; }
  /// Solves (JᵀJ + D) a = −Jᵀ w by the last factor, for a system with rows_along(); solve() must
  /// not follow.
  virtual Eigen::VectorXd correct(std::span<const double> /*w*/) { return {}; }

  /// Like those of Factorization.
  virtual void stop_at(const SchurIteration&) {}
  virtual int iterations() const { return 0; }
  virtual double entries() const = 0;
  virtual double flops() const = 0;
  virtual std::uint64_t vanished() const { return 0; }
  /// Returns the most by which the model could fall further than at this solution, if each pivot
  /// that vanished was just below the share at which it does. Rounding alone for
  /// directions in which the right side is zero, such as those of a gauge.
  virtual double hidden_decrease(const Eigen::VectorXd& /*solution*/) const { return 0; }
};

/// Steps have few digits where a pivot is so many units of those that vanish: strict factors refuse
/// it, because there is another way to solve.
inline constexpr double kUnitsOfStrict = 16;
/// The same, where each digit is needed.
inline constexpr double kUnitsOfExact = 1e6;

/// A factor of the whole matrix.
///
///   work          threads, and bits of the factor
///   factor        as make_sparse_factorization() takes it
///   strict_up_to  matrices of at most so many unknowns refuse pivots that vanish; larger ones
///                 leave them out (PivotRule)
///   units         of a strict matrix
std::unique_ptr<NormalSystem> make_matrix_system(const runtime::Model& model,
                                                 const runtime::cpu::CpuWork& work,
                                                 FactorPlace factor, std::uint64_t strict_up_to,
                                                 double units = kUnitsOfStrict);

/// A solution by make_iterative_schur().
std::unique_ptr<NormalSystem> make_iterative_system(const runtime::Model& model,
                                                    const runtime::cpu::CpuWork& work,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits);

/// Eliminates blocks straight from the rows of the Jacobian, without the matrix: a block's rows
/// give its part of JᵀJ and its couplings L⁻¹E, which are the only numbers that are stored, and the
/// Schur complement is factorised.
///
/// Source: as make_schur_factorization(); the symmetric form of the elimination is in Björck,
/// Numerical Methods for Least Squares Problems (1996), section 6.3.
std::unique_ptr<NormalSystem> make_row_schur(const runtime::Model& model,
                                             const Elimination& elimination,
                                             const runtime::cpu::CpuWork& work);

}  // namespace topograd
