// Problem: what a user minimises. It has parameters, residual blocks, energies, constraints and
// their data, which are grouped by topology as they are added; handles and options of its calls.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../ir/batch/batch.hpp"
#include "../ir/topology/topology.hpp"
#include "block_kind.hpp"
#include "doors.hpp"
#include "host_residual.hpp"
#include "loss.hpp"
#include "manifold.hpp"
#include "parameters.hpp"

namespace topograd {

/// One constraint of a problem, which may have several rows. A handle.
struct Constraint {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding; constraints have ids of their own
};

/// The constraints of one call of add_equalities() or add_inequalities(), in the order of the
/// elements.
struct Constraints {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to, but without, `last`
  std::size_t count = 0;
};

/// Options of a constraint.
struct ConstraintOptions {
  /// Appears in errors and reports, where multipliers are listed by it; copied.
  std::string_view label = {};
};

/// Options of a residual block.
struct ResidualOptions {
  Loss loss = {};
  /// Appears in errors and reports; copied.
  std::string_view label = {};
};

/// The elements of a map: columns of indices and numbers, and options of their residual blocks.
struct MapOptions {
  /// count x k, row by row: Element::index(k) reads column k.
  std::span<const std::uint32_t> indices = {};
  /// count x d, row by row: Element::data(k) reads column k. NaN is allowed.
  std::span<const double> data = {};
  /// Empty, or count + 1 ascending positions in `indices`, for elements of variable valence.
  std::span<const std::uint32_t> offsets = {};
  /// Empty, or count + 1 ascending positions in `data`.
  std::span<const std::uint32_t> data_offsets = {};
  Loss loss = {};
  std::string_view label = {};
};

/// One residual block of a problem. A handle.
struct Residual {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding
};

/// The residual blocks of one call of add_residuals(), in the order of the elements.
struct Residuals {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to, but without, `last`
  std::size_t count = 0;              ///< number of blocks
};

/// One energy of a problem. A handle.
struct Term {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding; energies have ids of their own
};

/// The energies of one call of add_energies(), in the order of the elements.
struct Terms {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to, but without, `last`
  std::size_t count = 0;
};

/// One array of unknowns as the solver sees it.
struct ParameterArray {
  std::uint32_t offset = 0;  ///< index in x of its first scalar
  std::uint32_t blocks = 0;
  std::uint32_t width = 1;
  double* values = nullptr;  ///< the user's memory; null: the gap of a removed array, fixed
  std::string name;          ///< used in messages; may be empty
};

/// One block of unknowns.
struct ParameterBlock {
  Parameters array;
  std::size_t block = 0;
};
inline ParameterBlock Parameters::block(std::size_t i) const {
  if (i >= blocks_) detail::bad_block("block", i, blocks_, id());
  return {*this, i};
}

/// A residual block of opaque code, with the blocks that it reads.
struct HostBlock {
  std::shared_ptr<const HostResidual> function;
  std::vector<std::uint32_t> offsets;  ///< index in x of each block's first scalar
  std::vector<std::uint32_t> widths;
  std::uint64_t row = 0;  ///< first row
  std::uint32_t rows = 0;
  Loss loss;
  std::uint64_t id = 0;
  std::uint32_t label = 0;
};

/// Counters that change with each change of a kind. Objects made from a problem compare them to
/// know when they are out of date.
struct Versions {
  std::uint64_t structure = 0;  ///< parameters, residuals, indices
  std::uint64_t data = 0;
  std::uint64_t uniforms = 0;
  std::uint64_t constants = 0;  ///< flags, bounds and manifolds

  friend bool operator==(const Versions&, const Versions&) = default;
};

/// Counts of what tracing did.
struct TraceStatistics {
  std::uint64_t residual_blocks = 0;   ///< present now, added singly or by maps
  std::uint64_t energies = 0;          ///< present now, likewise
  std::uint64_t nodes_traced = 0;      ///< tape nodes read by add_residual and add_energy
  std::uint64_t fast_matches = 0;      ///< blocks whose tape was compared in place
  std::uint64_t slow_matches = 0;      ///< blocks whose nodes were collected first
  std::uint64_t canonical_forms = 0;   ///< forms computed, one for each new raw shape
  std::uint64_t canonical_misses = 0;  ///< topologies that may be duplicates of another
  std::uint64_t map_blocks = 0;        ///< blocks added by maps
  std::uint64_t map_traces = 0;        ///< paths through maps' callables that were traced
};

/// The origin of a residual row.
struct Place {
  /// `topology` of a block that runs on the host.
  static constexpr std::size_t kHost = ~std::size_t{0};

  std::size_t topology = 0;  ///< its number in the problem
  std::size_t instance = 0;  ///< row of that topology's batch, or number of the host block
  std::uint32_t output = 0;  ///< row within the block
  std::string_view label;    ///< empty if none was given
};

class Branches;

/// An optimisation problem: half the sum of squares of the residuals, plus the sum of the energies
/// if there are any, is minimised over the parameters.
///
/// Owns the index and data columns of all residuals, in one ir::Batch per topology; keeps pointers
/// to the caller's parameters. Movable; handles stay valid. A thread that changes it must be alone;
/// residuals may be traced on any thread, but on one at a time.
///
/// During a solve, callbacks and residuals that run on the host cannot change the problem: calls
/// that would change or move it, and another solve, throw Error{InvalidArgument}. If it is
/// destroyed meanwhile, the caller's parameters get the best point so far, and the solve throws.
class Problem {
 public:
  Problem();
  ~Problem();
  Problem(Problem&&);  // NOLINT(performance-noexcept-*,bugprone-exception-*): throws in a solve
  Problem& operator=(Problem&&);  // NOLINT(performance-noexcept-*,bugprone-exception-*)

  /// Adds values.size() / width blocks of `width` unknowns, which start from `values`.
  ///
  /// Keeps the pointer: the memory must outlive the Problem and stay in place. A solve reads it
  /// when it starts and writes it once, when it ends. Throws Error{InvalidArgument} if `values` is
  /// empty, if it shares memory with another array of the problem, or if x would have 2^32 - 1
  /// scalars or more; Error{Shape} if width < 1 or width does not divide the size.
  ///
  ///   name  used in messages instead of the array's number; copied, need not be unique
  Parameters add_parameters(std::span<double> values, int width = 1, std::string_view name = {});
  /// The same for a container with data() and size(): a vector, an array, an Eigen vector.
  ///
  /// A container that owns its memory must itself outlive the Problem, or a move of the Problem: if
  /// its data() or size() has changed because it grew or was moved from, a solve throws
  /// Error{InvalidArgument} before it reads freed memory. Pass a span if the container moves but
  /// its memory stays.
  template <class Container>
  requires detail::LentDoubles<Container> Parameters add_parameters(Container&& values,
                                                                    int width = 1,
                                                                    std::string_view name = {}) {
    const std::span<double> numbers(values.data(), static_cast<std::size_t>(values.size()));
    const Parameters added = add_parameters(numbers, width, name);
    if constexpr (detail::OwnsMemory<std::remove_reference_t<Container>>)
      watch(added, detail::Lender::of(values));
    return added;
  }
  template <std::size_t N>
  Parameters add_parameters(double (&values)[N], int width = 1, std::string_view name = {}) {
    return add_parameters(std::span<double>(values), width, name);
  }
  /// Any other argument is a compile error that says what is expected.
  template <class Other>
  requires(!detail::GivesDoubles<Other> &&
           !std::is_pointer_v<std::remove_cvref_t<Other>>) Parameters
      add_parameters(Other&&, int = 1, std::string_view = {}) {
    detail::refuse_parameters<Other>();
    return {};
  }
  /// Adds `count` numbers that begin at `values`.
  Parameters add_parameters(double* values, std::size_t count, int width = 1,
                            std::string_view name = {}) {
    return add_parameters(std::span<double>(values, count), width, name);
  }

  /// Copies numbers that residuals can read; errors and `name` as for add_parameters.
  Data add_data(std::span<const double> values, int width = 1, std::string_view name = {});
  template <class Container>
  requires(!std::convertible_to<const Container&, std::span<const double>>) Data
      add_data(const Container& values, int width = 1, std::string_view name = {}) {
    if constexpr (detail::ConstDoubles<Container>) {
      return add_data(std::span(values.data(), static_cast<std::size_t>(values.size())), width,
                      name);
    } else {
      detail::refuse_data<Container>();
      return {};
    }
  }
  Uniform add_uniform(double value);
  /// Replaces all numbers of a data array, for existing residuals, too. Throws Error{Shape} if the
  /// size differs, Error{WrongProblem}. Cost: linear in the reads of data arrays.
  void set(const Data& data, std::span<const double> values);
  /// The same for numbers that are stored elsewhere, such as on a device. Backends that can access
  /// them use them in place; they are copied to the host when they are read there. The problem
  /// determines once per change of the structure whether residuals read them. Throws
  /// Error{InvalidArgument} for null.
  void set(const Data& data, std::shared_ptr<const ir::ResidentData> values);
  void set(const Uniform& uniform, double value);
  double value(const Uniform& uniform) const;

  /// Adds one residual block: an expression with one row, or several rows over shared unknowns.
  ///
  /// Throws Error{NoParameters} if no row depends on a parameter, Error{WrongProblem} if a
  /// parameter, uniform or data array of another problem is used, Error{StaleValue} for a Value of
  /// another thread or without an expression, Error{Shape} if there are no rows. The problem is
  /// unchanged after an error.
  Residual add_residual(const Value& row) { return add_rows({&row, 1}, {}); }
  Residual add_residual(const Value& row, const ResidualOptions& options) {
    return add_rows({&row, 1}, options);
  }
  Residual add_residual(std::span<const Value> rows, const ResidualOptions& options = {}) {
    return add_rows(rows, options);
  }
  Residual add_residual(std::initializer_list<Value> rows, const ResidualOptions& options = {}) {
    return add_rows({rows.begin(), rows.size()}, options);
  }
  Residual add_residual(const Vec2& rows, const ResidualOptions& options = {});
  Residual add_residual(const Vec3& rows, const ResidualOptions& options = {});
  Residual add_residual(const Vec4& rows, const ResidualOptions& options = {});
  /// Adds the rows of any other container of Values or Vecs. Any other argument is a compile error
  /// that says what is expected.
  template <class Rows>
  requires detail::OtherRows<Rows> Residual add_residual(const Rows& values,
                                                         const ResidualOptions& options = {}) {
    if constexpr (detail::kGivesRows<const Rows&>) {
      std::vector<Value> rows;
      append_rows(values, rows);
      return add_rows(rows, options);
    } else {
      detail::refuse_rows<Rows>();
      return {};
    }
  }

  /// The same for a loss without other options: add_residual(r, huber(1)).
  template <class Rows, std::same_as<Loss> L>
  Residual add_residual(Rows&& rows, const L& loss) {
    return add_residual(std::forward<Rows>(rows), ResidualOptions{.loss = loss});
  }
  template <std::same_as<Loss> L>
  Residual add_residual(std::initializer_list<Value> rows, const L& loss) {
    return add_residual(rows, ResidualOptions{.loss = loss});
  }

  /// Adds one residual block for each of `count` elements.
  ///
  /// `f` takes an Element and returns a Value, a Vec, or a container of Values. It is traced once
  /// for each valence and number of data, whatever `count` is; Values and numbers that it captures
  /// are the same in all elements. A second call checks that it returns the same: a callable that
  /// counts its calls or draws random numbers is Error{InvalidArgument}.
  ///
  /// If `f` branches on Values, it is called once for each path that an element takes. It is then
  /// copied together with the indices and data, and called again when elements change sides:
  /// objects that it refers to must live as long as the problem.
  ///
  /// Elements in which two reads meet in one unknown get a topology of their own. Throws
  /// Error{Shape} if the options' sizes do not fit, Error{InvalidArgument} for an index out of
  /// range (with its element), and what add_residual throws; the problem is then unchanged.
  template <class F>
  Residuals add_residuals(std::size_t count, F&& f, const MapOptions& options = {}) {
    if constexpr (detail::takes_element<F>()) {
      return add_map(count, Callable::of(f), options);
    } else {
      return {};
    }
  }

  /// Adds one residual block that `f()` returns: a Value, a Vec or a container of Values.
  ///
  /// If `f` branches on Values, it is copied and called again when a branch changes sides: objects
  /// that it refers to must live as long as the problem, and it must return the same number of rows
  /// each time. Without branches it is called once, which is the same as add_residual(f()).
  template <class F>
  requires std::invocable<F&> Residual add_residual(F&& f, const ResidualOptions& options = {}) {
    if constexpr (detail::gives_rows<std::invoke_result_t<F&>>()) {
      return handle(add_callable(RowsCallable::of(f), options, BlockKind::residual));
    } else {
      return {};
    }
  }

  /// Adds one energy: a number that is added to the objective itself, without being squared.
  ///
  /// Only methods for scalar objectives accept energies (Method). Throws as add_residual does, and
  /// Error{InvalidArgument} for a loss, which only residuals have.
  Term add_energy(const Value& energy, const ResidualOptions& options = {});
  /// Adds the energy that `f()` returns; it is traced again like the rows of add_residual(f).
  template <class F>
  requires std::invocable<F&> Term add_energy(F&& f, const ResidualOptions& options = {}) {
    if constexpr (detail::gives_rows<std::invoke_result_t<F&>>()) {
      const Residual added = handle(add_callable(RowsCallable::of(f), options, BlockKind::energy));
      return {added.problem, added.id};
    } else {
      return {};
    }
  }

  /// Adds one energy for each of `count` elements; `f` returns one Value. Throws what add_residuals
  /// throws, and Error{Shape} if `f` returns more than one number.
  template <class F>
  Terms add_energies(std::size_t count, F&& f, const MapOptions& options = {}) {
    if constexpr (detail::takes_element<F>()) {
      const Residuals added = add_map(count, Callable::of(f), options, BlockKind::energy);
      return {added.problem, added.first, added.last, added.count};
    } else {
      return {};
    }
  }

  /// Requires that an expression with one row or several is 0 at the solution: c(x) = 0.
  ///
  /// Constraints are traced, matched and compiled like residuals, but are no part of the objective:
  /// an Evaluator and methods without constraints do not see them. solve() meets them by
  /// Method::augmented_lagrangian. Throws what add_residual throws. A row that depends on no
  /// parameter is Error{NoParameters}.
  template <class Rows>
  Constraint add_equality(const Rows& rows, const ConstraintOptions& options = {}) {
    return add_any_constraint(rows, options, BlockKind::equality);
  }
  Constraint add_equality(std::initializer_list<Value> rows,
                          const ConstraintOptions& options = {}) {
    return add_constraint({rows.begin(), rows.size()}, options, BlockKind::equality);
  }
  /// Requires that no row of an expression is negative at the solution: c(x) >= 0. Otherwise like
  /// add_equality(). Points of a solve may violate it, its result may by
  /// SolverOptions::constraint_tolerance. Bounds of unknowns (set_bounds) always hold, and are
  /// cheaper.
  template <class Rows>
  Constraint add_inequality(const Rows& rows, const ConstraintOptions& options = {}) {
    return add_any_constraint(rows, options, BlockKind::inequality);
  }
  Constraint add_inequality(std::initializer_list<Value> rows,
                            const ConstraintOptions& options = {}) {
    return add_constraint({rows.begin(), rows.size()}, options, BlockKind::inequality);
  }
  /// Adds one constraint for each of `count` elements, as add_residuals() adds residuals. Throws
  /// what add_residuals throws, and Error{InvalidArgument} for a loss.
  template <class F>
  Constraints add_equalities(std::size_t count, F&& f, const MapOptions& options = {}) {
    return add_constraints(count, f, options, BlockKind::equality);
  }
  template <class F>
  Constraints add_inequalities(std::size_t count, F&& f, const MapOptions& options = {}) {
    return add_constraints(count, f, options, BlockKind::inequality);
  }
  /// The same: add_equality(count, f) adds `count` constraints.
  template <class F>
  requires std::invocable<F&, Element> Constraints add_equality(std::size_t count, F&& f,
                                                                const MapOptions& options = {}) {
    return add_constraints(count, f, options, BlockKind::equality);
  }
  template <class F>
  requires std::invocable<F&, Element> Constraints add_inequality(std::size_t count, F&& f,
                                                                  const MapOptions& options = {}) {
    return add_constraints(count, f, options, BlockKind::inequality);
  }

  /// Adds one block of opaque code over blocks of unknowns; it is called on the calling thread.
  ///
  ///   blocks  in the order in which `f` takes them, none of them twice
  ///
  /// Throws Error{InvalidArgument} if there are no blocks, or for a block that is out of range or
  /// listed twice; Error{Shape} for less than one row; Error{WrongProblem}.
  Residual add_residual(std::shared_ptr<const HostResidual> f,
                        std::span<const ParameterBlock> blocks,
                        const ResidualOptions& options = {});
  Residual add_residual(std::shared_ptr<const HostResidual> f,
                        std::initializer_list<ParameterBlock> blocks,
                        const ResidualOptions& options = {}) {
    return add_residual(std::move(f), std::span(blocks.begin(), blocks.size()), options);
  }

  /// Replaces the loss of blocks. Nothing is compiled, unless they get or lose a custom or composed
  /// loss or get their first loss; if no other blocks had the loss, only numbers change. Throws
  /// Error{WrongProblem}, Error{InvalidArgument} for a block that does not exist,
  /// Error{Unsupported} for a host loss on a traced block. Cost: the first call is linear in the
  /// problem's blocks, later calls in the blocks given.
  void set_loss(const Residual& residual, const Loss& loss);
  void set_loss(const Residuals& residuals, const Loss& loss);

  /// Removes one block; the rows after it move up. Throws Error{WrongProblem},
  /// Error{InvalidArgument} if it was removed before. Cost: linear in the blocks for the first
  /// removal, constant for later ones.
  void remove(const Residual& residual);
  void remove(const Term& energy);
  void remove(const Constraint& constraint);
  /// Removes an array of unknowns. Its memory is not accessed any more, and its handle becomes
  /// invalid. The other arrays keep their positions in x; later arrays of its width may take its
  /// position. Throws Error{WrongProblem}, Error{InvalidArgument} if it was removed before or if a
  /// residual or energy, which the message names, reads it. Cost: linear in the reads of the
  /// problem's blocks.
  void remove(const Parameters& x);

  /// Fixes coordinates of a block at their values: bit k of `coordinates` stands for coordinate k.
  /// Throws Error{WrongProblem}, Error{InvalidArgument}.
  void set_constant(const Parameters& x, std::size_t block, std::uint32_t coordinates = ~0u);
  void set_variable(const Parameters& x, std::size_t block, std::uint32_t coordinates = ~0u);

  /// Keeps a coordinate of a block within [lower, upper]; infinities leave a side open. Solves
  /// start within the bounds and respect them by projection; derivatives at a point ignore them.
  /// Throws Error{WrongProblem}, Error{InvalidArgument} for a NaN or a coordinate out of range.
  void set_bounds(const Parameters& x, std::size_t block, int coordinate, double lower,
                  double upper);
  void set_lower_bound(const Parameters& x, std::size_t block, int coordinate, double lower);
  void set_upper_bound(const Parameters& x, std::size_t block, int coordinate, double upper);

  /// Sets the manifold of a block; Manifold(nullptr) removes it. Throws Error{WrongProblem},
  /// Error{InvalidArgument}, Error{Shape} if the manifold's ambient size is not the block's width.
  void set_manifold(const Parameters& x, std::size_t block, Manifold manifold);
  /// Sets the manifold of all blocks of an array.
  void set_manifold(const Parameters& x, Manifold manifold);

  // Read by solvers.

  /// Number of scalars in x: all arrays one after the other, with the gaps of removed ones.
  std::size_t parameter_count() const;
  /// Number of scalar residual rows.
  std::size_t residual_count() const;
  std::size_t residual_block_count() const;
  std::size_t energy_count() const;
  /// Number of scalar rows of the constraints.
  std::size_t constraint_count() const;
  std::size_t topology_count() const;
  /// Topology t and its instances; both keep their addresses. Topologies are never removed, but can
  /// become empty. A topology of energies has one output, and the rows of its batch count energies.
  /// A topology of constraints has the residuals that penalise them (methods.md), whose rows follow
  /// those of the residuals.
  const ir::Topology& topology(std::size_t t) const;
  const ir::Batch& batch(std::size_t t) const;
  BlockKind kind(std::size_t t) const;
  bool is_energy(std::size_t t) const;
  /// The first label that a block of the topology was given; may be empty.
  std::string_view label(std::size_t t) const;
  /// The losses of topology t as a program (Loss::program), null if they are trivial. Its uniforms
  /// are the last uniforms of the topology.
  const ir::Program* loss_program(std::size_t t) const;
  /// Label and loss of one instance.
  std::string_view label(std::size_t t, std::size_t instance) const;
  Loss loss(std::size_t t, std::size_t instance) const;

  std::span<const ParameterArray> arrays() const;
  /// The handle of arrays()[number]. Throws Error{InvalidArgument} if it was removed or is out of
  /// range.
  Parameters parameters(std::size_t number) const;
  std::span<const double> uniforms() const;
  /// One byte per scalar of x, 1 if it is fixed; empty if none is.
  std::span<const std::uint8_t> constant_mask() const;
  /// One number per scalar of x; empty if no scalar ever had such a bound.
  std::span<const double> lower_bounds() const;
  std::span<const double> upper_bounds() const;
  /// Manifold of a block of array `array`; null if the block has none of its own.
  const Manifold* manifold(std::size_t array, std::size_t block) const;
  bool has_manifolds() const;
  std::span<const HostBlock> host_blocks() const;
  /// Index in x of a block's first scalar. Throws Error{WrongProblem}, Error{InvalidArgument}.
  std::uint32_t offset_of(const char* call, const ParameterBlock& block) const;
  std::string_view host_label(std::size_t block) const;
  Versions versions() const;

  /// Copies the users' parameters to x, or x to the users' memory. Throws Error{Shape}; read_x()
  /// throws Error{InvalidArgument} if a container given to add_parameters() has other memory now.
  void read_x(std::span<double> x) const;
  void write_x(std::span<const double> x) const;

  /// The block that a residual row belongs to. Throws Error{InvalidArgument}. Cost: linear in the
  /// blocks.
  Place locate(std::uint64_t row) const;
  TraceStatistics statistics() const;
  /// Bytes of host memory, including all columns.
  std::size_t bytes() const;

 private:
  friend class Branches;
  friend class NumberSources;
  friend class Penalties;
  friend class ProblemUse;

  /// Another view of the same state, which lives until its last view ends.
  explicit Problem(std::shared_ptr<detail::ProblemState> state);

  /// A reference to a callable, and functions that call and copy it (null if it cannot be copied).
  template <class... Arguments>
  struct CallableOf {
    using Kept = std::function<void(Arguments..., std::vector<Value>& rows)>;
    void* object;
    void (*call)(void* object, Arguments... arguments, std::vector<Value>& rows);
    Kept (*keep)(void* object);

    template <class F>
    static CallableOf of(F& f) {
      CallableOf out{const_cast<void*>(static_cast<const void*>(&f)),
                     [](void* callable, Arguments... arguments, std::vector<Value>& rows) {
                       append_rows((*static_cast<F*>(callable))(arguments...), rows);
                     },
                     nullptr};
      if constexpr (std::is_copy_constructible_v<std::decay_t<F>>) {
        out.keep = [](void* callable) -> Kept {
          return [kept = std::decay_t<F>(*static_cast<F*>(callable))](
                     Arguments... arguments, std::vector<Value>& rows) mutable {
            append_rows(kept(arguments...), rows);
          };
        };
      }
      return out;
    }
  };
  using Callable = CallableOf<Element>;
  using RowsCallable = CallableOf<>;

  static void append_rows(const Value& row, std::vector<Value>& rows) { rows.push_back(row); }
  static void append_rows(const Vec2& v, std::vector<Value>& rows) {
    rows.insert(rows.end(), {v.x, v.y});
  }
  static void append_rows(const Vec3& v, std::vector<Value>& rows) {
    rows.insert(rows.end(), {v.x, v.y, v.z});
  }
  static void append_rows(const Vec4& v, std::vector<Value>& rows) {
    rows.insert(rows.end(), {v.x, v.y, v.z, v.w});
  }
  template <class Container>
  requires requires(const Container& c) { c.begin(); }
  static void append_rows(const Container& values, std::vector<Value>& rows) {
    for (const auto& v : values) append_rows(v, rows);
  }

  /// From now on, reading x first checks that the container's memory is unchanged.
  void watch(const Parameters& x, const detail::Lender& lender);
  Residual add_rows(std::span<const Value> rows, const ResidualOptions& options);
  /// Throws unless x is an array of this problem.
  void check_present(const char* call, const Parameters& x) const;
  void mark_constant(const char* call, const Parameters& x, std::size_t block,
                     std::uint32_t coordinates, bool constant);
  void put_manifold(const Parameters& x, std::size_t first, std::size_t count, Manifold manifold);
  std::size_t scalar_of(const char* call, const Parameters& x, std::size_t block,
                        int coordinate) const;
  Residuals add_map(std::size_t count, const Callable& f, const MapOptions& options,
                    BlockKind kind = BlockKind::residual);
  std::uint64_t add_callable(const RowsCallable& f, const ResidualOptions& options, BlockKind kind);
  Constraint add_constraint(std::span<const Value> rows, const ConstraintOptions& options,
                            BlockKind kind);
  /// Takes what add_residual takes.
  template <class Rows>
  Constraint add_any_constraint(const Rows& values, const ConstraintOptions& options,
                                BlockKind kind) {
    if constexpr (std::convertible_to<const Rows&, Value>) {
      const Value row = values;
      return add_constraint({&row, 1}, options, kind);
    } else if constexpr (std::invocable<const Rows&>) {
      if constexpr (detail::gives_rows<std::invoke_result_t<const Rows&>>()) {
        const Residual added =
            handle(add_callable(RowsCallable::of(values), {.label = options.label}, kind));
        return {added.problem, added.id};
      } else {
        return {};
      }
    } else if constexpr (detail::kGivesRows<const Rows&>) {
      std::vector<Value> rows;
      append_rows(values, rows);
      return add_constraint(rows, options, kind);
    } else {
      detail::refuse_rows<Rows>();
      return {};
    }
  }
  template <class F>
  Constraints add_constraints(std::size_t count, F& f, const MapOptions& options, BlockKind kind) {
    if constexpr (detail::takes_element<F>()) {
      const Residuals added = add_map(count, Callable::of(f), options, kind);
      return {added.problem, added.first, added.last, added.count};
    } else {
      return {};
    }
  }
  Residual handle(std::uint64_t id) const;

  std::shared_ptr<detail::ProblemState> state_;
  bool is_view_ = false;  ///< made by ProblemUse
};

}  // namespace topograd
