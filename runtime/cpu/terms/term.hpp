// One batch on the CPU: its columns, and what its kernels compute from them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../plan/record/plan_record.hpp"
#include "../../profile.hpp"
#include "../../rows/rows.hpp"
#include "../interpreter/interpreter.hpp"
#include "block_sums.hpp"
#include "term_costs.hpp"
#include "term_kernels.hpp"

namespace topograd::runtime::cpu {

/// Numbers of the batch's data columns, as kernels read them. A column in which all instances have
/// the same bits is stored as one tile.
template <class T>
class DataColumns {
 public:
  explicit DataColumns(const ir::Batch& batch);

  /// Reads the columns again if they have changed, and returns whether they have.
  bool refresh(const ir::Batch& batch);

  std::size_t size() const { return columns_.size(); }
  bool is_shared(std::size_t column) const { return columns_[column].shared; }
  ColumnSource<T> source(std::size_t column) const {
    return {columns_[column].numbers.data(), columns_[column].shared};
  }
  /// The column's numbers times `scale`.
  Stored<T> stored(std::size_t column, double scale) const;
  std::uint64_t bytes() const;

 private:
  struct Numbers {
    Column<T> numbers;
    bool shared = false;
  };
  void read(const ir::Batch& batch);

  std::uint64_t version_;
  std::vector<Numbers> columns_;
};

/// Vectors that the kernels of all batches read.
template <class T>
struct Vectors {
  const T* x = nullptr;
  const T* p = nullptr;  ///< tangents, by the same index as x
  const T* uniforms = nullptr;
};

/// A worker for each thread that asks for one. Unlike TBB's class for this it loads no libraries,
/// which would take longer than a first small solve.
template <class T>
class Workers {
 public:
  Workers() = default;
  ~Workers() {
    for (std::atomic<Node*>& first : lists_)
      for (Node* node = first; node != nullptr;) delete std::exchange(node, node->next);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// That of this thread.
  Worker<T>& local() {
    const std::thread::id self = std::this_thread::get_id();
    std::atomic<Node*>& first = lists_[std::hash<std::thread::id>()(self) % kLists];
    for (Node* node = first; node != nullptr; node = node->next)
      if (node->thread == self) return node->worker;
    Node* const made = new Node{self, first, {}};
    while (!first.compare_exchange_weak(made->next, made)) {
    }
    return made->worker;
  }

 private:
  struct alignas(64) Node {
    std::thread::id thread;
    Node* next = nullptr;
    Worker<T> worker;
  };
  static constexpr std::size_t kLists = 64;
  std::array<std::atomic<Node*>, kLists> lists_ = {};
};

/// A sweep over the tiles of a batch runs a part's kernel, or one that copies its outputs from
/// where a device left them.
template <class T>
struct Sweep {
  const TileKernel<T>* tile = nullptr;
  Binding<T> binding;
  std::vector<Column<T>> found;  ///< what is copied
};

template <class T>
class TermState {
 public:
  /// `kernels` are the topology's, shared by all its terms.
  ///
  ///   device    evaluates the parts that read the model, in f64; outlives the term. Null: the
  ///             interpreter
  ///   scalars   of x
  ///   uniforms  numbers of them
  TermState(const Term& term, const BlockLayout& layout, std::uint64_t scalars,
            std::size_t uniforms, std::shared_ptr<TermKernels<T>> kernels,
            RowRunner* device = nullptr);
  TermState(const TermState&) = delete;
  TermState& operator=(const TermState&) = delete;

  const Term& term() const { return term_; }
  const TermIndex& index() const { return index_; }
  bool energy() const { return term_.energy; }
  std::size_t rows() const { return term_.topology->program.outputs.size(); }
  std::size_t slots() const { return index_.slots.size(); }
  bool is_current(const Term& term) const;
  /// Reads the data columns again if they have changed.
  void refresh_data() {
    if (data_.refresh(*term_.batch)) on_device_ = {};
  }

  /// Calls f(worker, first instance, instances) for each tile; the worker has the part's outputs.
  template <class F>
  void for_tiles(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v, const F& f);

  /// Adds a part's terms (gradient, vjp, jtjp, hvp) to a vector over the unknowns.
  void add_terms(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                 const BlockLayout& layout, T* out);

  /// Adds the gradient's terms and the cost, as add_cost(), in one sweep over the instances; also
  /// copies the rows to the problem's residuals unless these are empty.
  void add_gradient(Pool& pool, Workers<T>& workers, const Vectors<T>& v, const BlockLayout& layout,
                    T* out, std::span<double> rows, CostSum& cost);

  /// Copies rows of the tile at instance `first` to their rows of the problem; they are the
  /// worker's outputs from `output` on.
  void copy_rows(const Worker<T>& worker, std::size_t output, std::size_t first, std::size_t n,
                 std::span<double> out) const;

  /// Sets the adjoints of the rows, in the problem's order, for parts with seeds.
  void set_seeds(Pool& pool, std::span<const double> seeds);

  /// Adds, at v.x, Σ of the outputs of energies, or Σ r², or Σ ρ of blocks with a loss; the same
  /// bits as LinearTerm::add_residual_square() there.
  void add_cost(Pool& pool, Workers<T>& workers, const Vectors<T>& v, const BlockLayout& layout,
                CostSum& cost);

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
    run_to_columns(pool, workers, part, v, {}, terms_);
  }

  /// Times a part of this batch until the result ends, where a profile is watched.
  TimedPass timed(Part part);
  /// The same for other work on its columns.
  TimedPass timed(const char* what) const {
    return {TimedWork::cpu, what, identifier_, term_.topology};
  }

  // For results that the caller keeps in columns.

  const Kernel<T>& kernel(Part part) { return kernels_->get(part); }
  /// Columns, vectors and uniforms that a kernel reads.
  ///
  ///   kept  data columns after those of the batch
  Binding<T> bind(const TileKernel<T>& kernel, const Vectors<T>& v,
                  std::span<const Column<T>> kept) const;
  /// Begins a part with this binding: on a device its outputs are computed here. A part whose first
  /// outputs there differ in a bit from the interpreter's is left to the interpreter.
  Sweep<T> begin(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                 Binding<T> binding);
  /// Parts but for guards that a device has run, which EngineStats::kernels_on_cpu counts, too.
  std::uint64_t runs_on_device() const { return runs_on_device_; }
  /// Evaluates all outputs of a part's kernel into columns; missing ones are made.
  void run_to_columns(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                      std::span<const Column<T>> kept, std::vector<Column<T>>& columns);
  /// The numbers of an output whose columns are `columns`.
  Stored<T> stored(const OutputSource& source, const std::vector<Column<T>>& columns) const;
  TermCosts<T>& costs() { return costs_; }

  /// Indices and data as a device has them.
  RowIndices row_indices() const;
  std::size_t data_columns() const { return data_.size(); }
  /// The data column that has these numbers.
  std::uint32_t data_column(const T* numbers) const;

 private:
  std::uint64_t bytes_of_instance(const Kernel<T>& kernel) const;
  /// A part on the device; `kernel` is null where its bits differ.
  struct OnDevice {
    std::unique_ptr<RowKernel> kernel;
    bool is_compared = false;
  };
  std::unique_ptr<RowKernel> make_on_device(const Kernel<T>& kernel) const;
  bool has_same_bits(Pool& pool, Workers<T>& workers, const Kernel<T>& kernel, const Vectors<T>& v,
                     const std::vector<Column<T>>& found) const;
  /// Adds the outputs of a kernel to `found`; false where the interpreter has to run it.
  bool run_on_device(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                     std::vector<Column<T>>& found) requires std::is_same_v<T, double>;
  ColumnSource<T> column_of(const LeafUse& leaf, std::span<const Column<T>> kept) const;
  /// Sums stored terms by block.
  void add_stored(Pool& pool, const Kernel<T>& kernel, const BlockLayout& layout, T* out);
  Binding<T> bind_columns(const Kernel<T>& kernel, const Vectors<T>& v,
                          std::span<const Column<T>> kept, std::size_t count,
                          std::vector<Column<T>>& columns) const;

  Term term_;
  std::string identifier_;  // of the label, as names of kernels begin
  std::uint64_t structure_version_ = 0;
  TermIndex index_;
  DataColumns<T> data_;
  std::shared_ptr<TermKernels<T>> kernels_;
  std::vector<Column<T>> terms_;  // of gradient, vjp, jtjp, hvp
  std::vector<Column<T>> seeds_;
  TermCosts<T> costs_;
  std::array<std::uint64_t, kParts> bytes_of_part_{};  // 0: not counted yet
  RowRunner* device_;
  std::uint64_t runs_on_device_ = 0;
  std::size_t scalars_, uniforms_;
  std::array<OnDevice, kParts> on_device_;                           // made on first use
  std::array<std::unique_ptr<const TileKernel<T>>, kParts> copies_;  // of their outputs
};

/// Tiles of one range of work.
inline constexpr std::size_t kInstancesPerRange = 8 * kTile;

template <class T>
template <class F>
void TermState<T>::for_tiles(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                             const F& f) {
  const TimedPass time = timed(part);
  const Sweep<T> sweep = begin(pool, workers, part, v, bind(kernel(part).tile, v, {}));
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      worker.run(*sweep.tile, sweep.binding, first, n);
      f(worker, first, n);
    }
  });
}

}  // namespace topograd::runtime::cpu
