// Problem: parameters, residual blocks and what they read, grouped by topology as they are added.
#pragma once

#include "../ir/batch/batch.hpp"
#include "../ir/topology/topology.hpp"
#include "doors.hpp"
#include "host_residual.hpp"
#include "loss.hpp"
#include "manifold.hpp"
#include "parameters.hpp"

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace topograd {

/// What a residual block carries besides its expression.
struct ResidualOptions {
  Loss loss = {};
  std::string_view label = {};  ///< appears in errors and reports; copied
};

/// The elements of a map.
///
///   indices       count x k numbers, row by row: what Element::index(k) stands for
///   data          count x d numbers, row by row: what Element::data(k) stands for; NaN is allowed
///   offsets       empty, or count + 1 ascending positions in `indices`: elements of variable
///   valence data_offsets  empty, or count + 1 ascending positions in `data`
struct MapOptions {
  std::span<const std::uint32_t> indices = {};
  std::span<const double> data = {};
  std::span<const std::uint32_t> offsets = {};
  std::span<const std::uint32_t> data_offsets = {};
  Loss loss = {};
  std::string_view label = {};
};

/// One residual block of a problem. A handle.
struct Residual {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding
};

/// The residual blocks of one add_residuals, in the order of the elements.
struct Residuals {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to but without `last`
  std::size_t count = 0;              ///< number of blocks
};

/// One energy of a problem. A handle.
struct Term {
  std::uint32_t problem = 0;
  std::uint64_t id = 0;  ///< ascending in the order of adding; energies are numbered on their own
};

/// The energies of one add_energies, in the order of the elements.
struct Terms {
  std::uint32_t problem = 0;
  std::uint64_t first = 0, last = 0;  ///< ids from `first` up to but without `last`
  std::size_t count = 0;
};

/// One array of unknowns as the solver sees it.
struct ParameterArray {
  std::uint32_t offset = 0;  ///< index in x of its first scalar
  std::uint32_t blocks = 0;
  std::uint32_t width = 1;
  double* values = nullptr;  ///< the user's memory; null: the place of a removed array, constant
  std::string name;          ///< that messages call it by; may be empty
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

/// A block of opaque code and what it reads.
struct HostBlock {
  std::shared_ptr<const HostResidual> function;
  std::vector<std::uint32_t> offsets;  ///< in x, of the first scalar of each block
  std::vector<std::uint32_t> widths;
  std::uint64_t row = 0;  ///< its first row
  std::uint32_t rows = 0;
  Loss loss;
  std::uint64_t id = 0;
  std::uint32_t label = 0;
};

/// Numbers that move on with each change of a kind; followers compare and refresh.
struct Versions {
  std::uint64_t structure = 0;  ///< parameters, residuals, indices
  std::uint64_t data = 0;
  std::uint64_t uniforms = 0;
  std::uint64_t constants = 0;  ///< flags, bounds and manifolds

  friend bool operator==(const Versions&, const Versions&) = default;
};

/// How tracing went.
struct TraceStatistics {
  std::uint64_t residual_blocks = 0;   ///< that are there, through either front door
  std::uint64_t energies = 0;          ///< that are there, likewise
  std::uint64_t nodes_traced = 0;      ///< tape nodes read by add_residual and add_energy
  std::uint64_t fast_matches = 0;      ///< blocks whose tape was compared where it lay
  std::uint64_t slow_matches = 0;      ///< blocks whose nodes were collected first
  std::uint64_t canonical_forms = 0;   ///< forms computed, one for each new raw shape
  std::uint64_t canonical_misses = 0;  ///< topologies that may be duplicates of another
  std::uint64_t map_blocks = 0;        ///< blocks added by maps
  std::uint64_t map_traces = 0;        ///< paths through maps' callables that were traced
};

/// Where a residual row comes from.
struct Place {
  /// `topology` of a block that runs on the host.
  static constexpr std::size_t kHost = ~std::size_t{0};

  std::size_t topology = 0;  ///< its number in the problem
  std::size_t instance = 0;  ///< row of that topology's batch, or number of the host block
  std::uint32_t output = 0;  ///< row within the block
  std::string_view label;    ///< empty if none was given
};

class Branches;

/// What is minimised over the parameters: half the sum of squares of the residuals, and the sum of
/// the energies if there are any.
///
/// Owns the index and data columns of all residuals, one ir::Batch a topology; keeps pointers to
/// the caller's parameters. One writer and no reader beside it; residuals may be traced on any one
/// thread at a time. Movable; handles stay valid.
///
/// While it is solved, callbacks and residuals that run on the host cannot change it: calls that
/// would, a move, and another solve throw Error{InvalidArgument}. Where it ends meanwhile, the
/// caller's parameters get the best point at that moment, and the solve throws.
class Problem {
 public:
  Problem();
  ~Problem();
  Problem(Problem&&);
  Problem& operator=(Problem&&);

  /// Adds values.size() / width blocks of `width` unknowns, which start from `values`.
  ///
  /// Keeps the pointer: the memory must outlive the Problem and stay where it is; a solve reads it
  /// at its start and writes it once, at its end. Throws Error{InvalidArgument} if `values` is
  /// empty or shares memory with another array that is there, or x would have 2^32 - 1 scalars or
  /// more, Error{Shape} if width < 1 or does not divide the size.
  ///
  ///   name  what messages call the array, instead of its number; copied, and need not be unique
  Parameters add_parameters(std::span<double> values, int width = 1, std::string_view name = {});
  /// The same of a vector, an array, an Eigen vector: what has data() and size().
  ///
  /// Where it has memory of its own it, too, must outlive the Problem or a move of it: a solve that
  /// finds its data() or size() changed, because it grew or was moved from, throws
  /// Error{InvalidArgument}, before it reads memory that is gone. Whoever moves the container and
  /// keeps its memory gives a span.
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
  /// Whatever else is given is an error of compilation that says what is expected.
  template <class Other>
  requires(!detail::GivesDoubles<Other> &&
           !std::is_pointer_v<std::remove_cvref_t<Other>>) Parameters
      add_parameters(Other&&, int = 1, std::string_view = {}) {
    detail::refuse_parameters<Other>();
    return {};
  }
  /// `count` numbers from `values` on.
  Parameters add_parameters(double* values, std::size_t count, int width = 1,
                            std::string_view name = {}) {
    return add_parameters(std::span<double>(values, count), width, name);
  }

  /// Copies numbers for residuals to read; errors and `name` as for add_parameters.
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
  /// New numbers for all of a data array, also in residuals that are there already.
  /// Throws Error{Shape} if the size differs, Error{WrongProblem}. Cost: linear in the reads of
  /// data arrays.
  void set(const Data& data, std::span<const double> values);
  /// The same from where they lie: backends that reach them there take them without the host;
  /// whoever asks for one on the host brings them. Whether residuals read them is looked up once
  /// for each change of the structure. Throws Error{InvalidArgument} for null.
  void set(const Data& data, std::shared_ptr<const ir::RemoteNumbers> values);
  void set(const Uniform& uniform, double value);
  double value(const Uniform& uniform) const;

  /// Adds one residual block: an expression with one row, or several rows over shared unknowns.
  ///
  /// Throws Error{NoParameters} if no row depends on a parameter, Error{WrongProblem} if a
  /// parameter, uniform or data array of another problem is used, Error{StaleValue} for a Value of
  /// another thread or without an expression, Error{Shape} if there are no rows; the problem is
  /// unchanged then.
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
  /// Rows of any other container of Values or Vecs. Whatever else is given is an error of
  /// compilation that says what is expected.
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

  /// Adds one residual block for each of `count` elements.
  ///
  /// `f` takes an Element and gives a Value, a Vec, or a container of Values. It is traced once for
  /// each valence and number of data, whatever `count` is; Values and numbers that it captures are
  /// the same in all elements. It runs a second time, to see that it gives the same then: one that
  /// counts its calls or draws numbers is Error{InvalidArgument}. Where it branches on Values it is
  /// called once for each path that an element takes, copied, and called again when elements change
  /// sides: what it refers to must live as long as the problem does. The indices and data are
  /// copied then, too. Elements in which two reads meet in one unknown get a topology of their own.
  /// Throws Error{Shape} if the options' sizes do not fit, Error{InvalidArgument} for an index out
  /// of range (with its element), and what add_residual throws; the problem is unchanged then.
  template <class F>
  Residuals add_residuals(std::size_t count, F&& f, const MapOptions& options = {}) {
    if constexpr (detail::takes_element<F>()) {
      return add_map(count, Callable::of(f), options);
    } else {
      return {};
    }
  }

  /// Adds one residual block that `f()` gives: a Value, a Vec or a container of Values.
  ///
  /// Where `f` branches on Values it is copied and called again when a branch changes sides, so
  /// what it refers to must live as long as the problem does, and it must give as many rows each
  /// time. Without branches it is called once, and this is add_residual(f()).
  template <class F>
  requires std::invocable<F&> Residual add_residual(F&& f, const ResidualOptions& options = {}) {
    if constexpr (detail::gives_rows<std::invoke_result_t<F&>>()) {
      return handle(add_callable(RowsCallable::of(f), options, false));
    } else {
      return {};
    }
  }

  /// Adds one energy: a number that contributes itself, not its square, to what is minimised.
  ///
  /// Only methods for scalar objectives take it (Method). Throws as add_residual, and
  /// Error{InvalidArgument} for a loss, which belongs to residuals.
  Term add_energy(const Value& energy, const ResidualOptions& options = {});
  /// The energy that `f()` gives, traced again as the rows of add_residual(f) are.
  template <class F>
  requires std::invocable<F&> Term add_energy(F&& f, const ResidualOptions& options = {}) {
    if constexpr (detail::gives_rows<std::invoke_result_t<F&>>()) {
      const Residual added = handle(add_callable(RowsCallable::of(f), options, true));
      return {added.problem, added.id};
    } else {
      return {};
    }
  }

  /// Adds one energy for each of `count` elements: `f` gives one Value. Errors are those of
  /// add_residuals, and Error{Shape} where `f` gives more than one number.
  template <class F>
  Terms add_energies(std::size_t count, F&& f, const MapOptions& options = {}) {
    if constexpr (detail::takes_element<F>()) {
      const Residuals added = add_map(count, Callable::of(f), options, true);
      return {added.problem, added.first, added.last, added.count};
    } else {
      return {};
    }
  }

  /// Adds one block of opaque code over blocks of unknowns; it is called on the calling thread.
  ///
  ///   blocks  in the order in which `f` takes them, each one once
  ///
  /// Throws Error{InvalidArgument} without blocks, for a block that is out of range or named
  /// twice, Error{Shape} for less than one row, Error{WrongProblem}.
  Residual add_residual(std::shared_ptr<const HostResidual> f,
                        std::span<const ParameterBlock> blocks,
                        const ResidualOptions& options = {});
  Residual add_residual(std::shared_ptr<const HostResidual> f,
                        std::initializer_list<ParameterBlock> blocks,
                        const ResidualOptions& options = {}) {
    return add_residual(std::move(f), std::span(blocks.begin(), blocks.size()), options);
  }

  /// Gives blocks another loss. Nothing is compiled, unless they get or lose a custom or composed
  /// loss or their first one; only numbers change if these blocks are all that had their loss.
  /// Throws Error{WrongProblem}, Error{InvalidArgument} for a block that is not there,
  /// Error{Unsupported} for a host loss on other than host blocks. Cost: the first call is linear
  /// in the problem's blocks, later ones in the blocks named.
  void set_loss(const Residual& residual, const Loss& loss);
  void set_loss(const Residuals& residuals, const Loss& loss);

  /// Removes one block; the rows after it move up. Throws Error{WrongProblem},
  /// Error{InvalidArgument} if it was removed before. Cost: the first removal is linear in the
  /// blocks, the others constant.
  void remove(const Residual& residual);
  void remove(const Term& energy);
  /// Removes an array of unknowns; its memory is not touched any more. Its handle ends. Later
  /// arrays of its width may take its place in x, in which nothing moves otherwise. Throws
  /// Error{WrongProblem}, Error{InvalidArgument} if it was removed before or if something reads it,
  /// naming the residual or energy. Cost: linear in what the problem's blocks read.
  void remove(const Parameters& x);

  /// Holds coordinates of a block at their values: bit k of `coordinates` stands for coordinate k.
  /// Throws Error{WrongProblem}, Error{InvalidArgument}.
  void set_constant(const Parameters& x, std::size_t block, std::uint32_t coordinates = ~0u);
  void set_variable(const Parameters& x, std::size_t block, std::uint32_t coordinates = ~0u);

  /// Keeps a coordinate of a block within [lower, upper]; infinities leave a side open. Solves
  /// keep to it by projection and start within it; derivatives at a point know nothing of it.
  /// Throws Error{WrongProblem}, Error{InvalidArgument} for a NaN or a coordinate out of range.
  void set_bounds(const Parameters& x, std::size_t block, int coordinate, double lower,
                  double upper);
  void set_lower_bound(const Parameters& x, std::size_t block, int coordinate, double lower);
  void set_upper_bound(const Parameters& x, std::size_t block, int coordinate, double upper);

  /// Lets a block move on a manifold; Manifold(nullptr) gives it all its coordinates back.
  /// Throws Error{WrongProblem}, Error{InvalidArgument}, Error{Shape} if the manifold's ambient
  /// space is not as wide as the block.
  void set_manifold(const Parameters& x, std::size_t block, Manifold manifold);
  /// The same for all blocks of an array.
  void set_manifold(const Parameters& x, Manifold manifold);

  // What a solver reads.

  /// Number of scalars in x, all arrays one after the other, with the places of removed ones.
  std::size_t parameter_count() const;
  /// Number of scalar residual rows.
  std::size_t residual_count() const;
  std::size_t residual_block_count() const;
  std::size_t energy_count() const;
  std::size_t topology_count() const;
  /// Topology t and its instances; both keep their addresses. Topologies are never removed, only
  /// emptied. One of energies has one output, and its batch's rows count energies.
  const ir::Topology& topology(std::size_t t) const;
  const ir::Batch& batch(std::size_t t) const;
  bool is_energy(std::size_t t) const;
  /// The first label that a block of the topology was given; may be empty.
  std::string_view label(std::size_t t) const;
  /// The losses of topology t as a program (Loss::program), null if they are trivial. Its uniforms
  /// are the topology's last ones.
  const ir::Program* loss_program(std::size_t t) const;
  /// Label and loss of one instance.
  std::string_view label(std::size_t t, std::size_t instance) const;
  Loss loss(std::size_t t, std::size_t instance) const;

  std::span<const ParameterArray> arrays() const;
  /// The handle of arrays()[number], which is not the place of a removed one. Throws
  /// Error{InvalidArgument}.
  Parameters parameters(std::size_t number) const;
  std::span<const double> uniforms() const;
  /// One byte a scalar of x, 1 where it is constant; empty if nothing is.
  std::span<const std::uint8_t> constant_mask() const;
  /// One number a scalar of x; empty if no scalar had such a bound so far.
  std::span<const double> lower_bounds() const;
  std::span<const double> upper_bounds() const;
  /// Manifold of a block of array number `array`; null if it has none of its own.
  const Manifold* manifold(std::size_t array, std::size_t block) const;
  bool has_manifolds() const;
  std::span<const HostBlock> host_blocks() const;
  /// Index in x of a block's first scalar. Throws Error{WrongProblem}, Error{InvalidArgument}.
  std::uint32_t offset_of(const char* call, const ParameterBlock& block) const;
  std::string_view host_label(std::size_t block) const;
  Versions versions() const;

  /// Copies the users' parameters to x, or x to the users' memory. Throws Error{Shape}, and
  /// read_x() Error{InvalidArgument} where a container that was given has changed.
  void read_x(std::span<double> x) const;
  void write_x(std::span<const double> x) const;

  /// The block that a residual row belongs to. Throws Error{InvalidArgument}. Cost: linear in the
  /// blocks.
  Place locate(std::uint64_t row) const;
  TraceStatistics statistics() const;
  /// Bytes of host memory held, columns and all.
  std::size_t bytes() const;

 private:
  friend class Branches;
  friend class ProblemUse;

  /// Another view of the same state; the state's life ends with the last one.
  explicit Problem(std::shared_ptr<detail::ProblemState> state);

  /// A reference to a callable, how to call it, and how to copy it; null if it cannot be.
  template <class... Arguments>
  struct CallableOf {
    using Kept = std::function<void(Arguments..., std::vector<Value>& rows)>;
    void* object;
    void (*call)(void* object, Arguments... arguments, std::vector<Value>& rows);
    Kept (*keep)(void* object);

    template <class F>
    static CallableOf of(F& f) {
      CallableOf out{const_cast<void*>(static_cast<const void*>(&f)),
                     [](void* object, Arguments... arguments, std::vector<Value>& rows) {
                       append_rows((*static_cast<F*>(object))(arguments...), rows);
                     },
                     nullptr};
      if constexpr (std::is_copy_constructible_v<std::decay_t<F>>) {
        out.keep = [](void* object) -> Kept {
          return [kept = std::decay_t<F>(*static_cast<F*>(object))](
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

  /// From now on a look at x begins with one at the container.
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
                    bool energy = false);
  std::uint64_t add_callable(const RowsCallable& f, const ResidualOptions& options, bool energy);
  Residual handle(std::uint64_t id) const;

  std::shared_ptr<detail::ProblemState> state_;
  bool is_view_ = false;  ///< made by ProblemUse
};

}  // namespace topograd
