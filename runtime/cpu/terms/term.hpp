// One batch on the CPU: its columns, its kernels and their results.
#pragma once

#include "../../plan/record/plan_record.hpp"
#include "../interpreter/compact.hpp"
#include "../interpreter/interpreter.hpp"
#include "owner_sum.hpp"
#include "window_sum.hpp"

#include <tbb/enumerable_thread_specific.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace topograd::runtime::cpu {

/// Vectors that the kernels of all batches read.
template <class T>
struct Vectors {
  const T* x = nullptr;
  const T* p = nullptr;  ///< tangents, by the same index as x
  const T* uniforms = nullptr;
};

template <class T>
using Workers = tbb::enumerable_thread_specific<Worker<T>>;

/// Results that can be computed for an instance.
enum class Part : std::uint8_t {
  Residual,      ///< rows
  Gradient,      ///< terms of Jᵀr by slot
  Vjp,           ///< terms of Jᵀ·seeds by slot
  Jtjp,          ///< terms of Jᵀ(J·p) by slot
  Jvp,           ///< rows of J·p
  Jacobian,      ///< J
  Linear,        ///< rows, then J, stored in columns
  ApplyLinear,   ///< rows of J·p from the columns of Linear
  JtjpLinear,    ///< terms of Jᵀ(J·p) by slot from the columns of Linear
  Hvp,           ///< terms of ∇²E·p by slot; E is ½ Σ r², or the energy
  Hessian,       ///< ∇²E by the slots, packed upper triangle
  Cost,          ///< one number
  Guards,        ///< 1 if a guard fails
  CostGradient,  ///< Gradient, then the parts of the cost: rows, or with a loss one number
  Values,        ///< the same, always with the rows
};
inline constexpr std::size_t kParts = 15;

template <class T>
class TermState {
 public:
  /// A kernel of a topology, made on first use.
  struct Kernel {
    TileKernel<T> tile;
    std::vector<OutputSource> sources;  // of outputs that are stored
    std::size_t columns = 0;            // columns they take, before all other outputs
    std::uint64_t operations = 0;       // per instance; a function counts as one
  };
  using Kernels = std::array<std::unique_ptr<const Kernel>, kParts>;

  /// `kernels` are the topology's, shared by all its terms.
  TermState(const Term& term, const BlockLayout& layout, std::uint64_t scalars,
            std::size_t uniforms, std::shared_ptr<Kernels> kernels);

  const Term& term() const { return term_; }
  const TermIndex& index() const { return index_; }
  bool energy() const { return term_.energy; }
  std::size_t rows() const { return term_.topology->program.outputs.size(); }
  std::size_t slots() const { return index_.slots.size(); }
  bool is_current(const Term& term) const;
  /// Reads the data columns again if they have changed.
  void refresh_data();

  /// Calls f(worker, first instance, instances) for each tile; the worker has the part's outputs.
  template <class F>
  void for_tiles(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v, const F& f);

  /// Adds a part's terms (gradient, vjp, jtjp, hvp) to a vector over the unknowns.
  void add_terms(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                 const BlockLayout& layout, T* out);

  /// Adds the gradient's terms and returns cost(), in one sweep over the instances; also copies the
  /// rows to the problem's residuals unless these are empty.
  double add_gradient(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                      const BlockLayout& layout, T* out, std::span<double> rows);

  /// Copies rows of the tile at instance `first` to their places in the problem; they are the
  /// worker's outputs from `output` on.
  void copy_rows(const Worker<T>& worker, std::size_t output, std::size_t first, std::size_t n,
                 std::span<double> out) const;

  /// Sets the adjoints of the rows, in the problem's order, for parts with seeds.
  void set_seeds(Pool& pool, std::span<const double> seeds);

  /// Evaluates rows and J into columns and keeps them.
  void linearize(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  /// out += Jᵀr of the last linearize().
  void add_linear_gradient(Pool& pool, const BlockLayout& layout, T* out);
  /// out += diagonal blocks of JᵀJ of the last linearize().
  void add_linear_blocks(Pool& pool, const BlockLayout& layout, T* out);
  /// out += diagonal of JᵀJ of the last linearize().
  void add_linear_diagonal(Pool& pool, const BlockLayout& layout, T* out);
  /// Copies the J of the last linearize(), [instance][row][slot], with zeros for fixed scalars.
  void copy_jacobian(Pool& pool, const std::vector<std::uint8_t>& constant,
                     std::span<double> out) const;
  /// Computes and keeps u = J·p (p is v.p) with the J of the last linearize().
  void apply(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  /// out += Jᵀ(J·p) with the same J; may overwrite the result of apply().
  void add_linear_jtjp(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                       const BlockLayout& layout, std::size_t scalars, T* out);
  /// At v.x: Σ of the outputs of energies, or Σ r², or Σ ρ of blocks with a loss; the same bits as
  /// linear_residual_square() there.
  double cost(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  /// Σ r² (or Σ ρ) at the point of the last linearize(), or Σ u² of the last apply().
  double linear_residual_square(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  double applied_square(Pool& pool) const;

  /// Bytes of index columns and lists, of data columns, and of results stored by kernels.
  struct Bytes {
    std::uint64_t index = 0, lists = 0, data = 0, stored = 0;
  };
  Bytes bytes() const;

  /// Figures of each kernel made for the topology, for this batch, as a plan record has them.
  std::vector<PlanChoice> kernels_made() const;

  bool has_guards() const { return !term_.topology->program.guards.empty(); }
  /// Instances that fail a guard at v.x, ascending.
  std::vector<std::uint32_t> failed(Pool& pool, Workers<T>& workers, const Vectors<T>& v);

  /// Evaluates a part into columns that nobody reads, to time it.
  void store(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v) {
    run_to_columns(pool, workers, kernel(part), v, terms_);
  }

 private:
  const Kernel& kernel(Part part);
  Kernel make_kernel(Part part);
  std::uint64_t bytes_of_instance(const Kernel& kernel) const;
  const Kernel& linear_kernel() const {
    return *(*kernels_)[static_cast<std::size_t>(Part::Linear)];
  }
  Binding<T> bind(const TileKernel<T>& kernel, const Vectors<T>& v) const;
  ColumnSource<T> column_of(const LeafUse& leaf) const;
  void run_to_columns(Pool& pool, Workers<T>& workers, const Kernel& kernel, const Vectors<T>& v,
                      std::vector<Column<T>>& columns);
  Stored<T> stored(const OutputSource& source, const std::vector<Column<T>>& columns) const;
  Products<T> products_with(std::span<const Stored<T>> rows) const;
  StoredJacobian<T> stored_jacobian() const;
  std::vector<Stored<T>> stored_residuals() const;
  std::vector<Stored<T>> applied_rows() const;
  double square(Pool& pool, std::span<const Stored<T>> rows) const;
  /// A tile's part of cost(), from the worker's outputs from `output` on.
  double tile_cost(const Worker<T>& worker, std::size_t output, std::size_t n) const;
  /// Sums stored terms by block.
  void add_stored(Pool& pool, const Kernel& kernel, const BlockLayout& layout, T* out);
  Binding<T> bind_columns(const Kernel& kernel, const Vectors<T>& v, std::size_t count,
                          std::vector<Column<T>>& columns) const;

  Term term_;
  std::uint64_t structure_version_ = 0, data_version_ = 0;
  TermIndex index_;
  /// A column in which all instances have the same bits is stored as one tile.
  struct Data {
    Column<T> numbers;
    bool shared = false;
  };
  std::vector<Data> data_;
  std::shared_ptr<Kernels> kernels_;
  std::vector<Column<T>> terms_;       // of gradient, vjp, jtjp, hvp
  std::vector<Column<T>> linear_;      // rows and J
  std::vector<Column<T>> applied_;     // J·p
  std::optional<WindowSums> windows_;  // made for the first product
  std::vector<Column<T>> seeds_;
};

/// Tiles of one range of work.
inline constexpr std::size_t kInstancesPerRange = 8 * kTile;

template <class T>
template <class F>
void TermState<T>::for_tiles(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                             const F& f) {
  const TileKernel<T>& tile = kernel(part).tile;
  const Binding<T> binding = bind(tile, v);
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      worker.run(tile, binding, first, n);
      f(worker, first, n);
    }
  });
}

}  // namespace topograd::runtime::cpu
