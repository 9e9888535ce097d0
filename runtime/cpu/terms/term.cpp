// Kernels of one batch, bound to its columns and run over its tiles.
#include "term.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "../../plan/column_forms.hpp"
#include "../../plan/passes.hpp"
#include "../../plan/requests.hpp"
#include "../tiles/column.hpp"

namespace topograd::runtime::cpu {
namespace {

// Larger columns (their sum) are written past the caches.
constexpr std::size_t kCacheBytes = std::size_t{4} << 20;

/// Evaluates all outputs of a kernel into the columns that the binding has for them.
template <class T>
void run_tiles(Pool& pool, Workers<T>& workers, const TileKernel<T>& tile,
               const Binding<T>& binding, std::size_t instances) {
  pool.for_ranges(instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile)
      worker.run(tile, binding, first, std::min(kTile, end - first));
    // The end of the range does not order streaming stores.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

/// The program that copies columns to outputs.
ir::Program copies(std::size_t outputs) {
  ir::Graph graph;
  std::vector<ir::Id> all;
  for (std::uint32_t k = 0; k < outputs; ++k) all.push_back(graph.leaf(ir::Op::Data, k));
  return graph.extract(all, {.data = static_cast<std::uint32_t>(outputs)});
}

}  // namespace

template <class T>
TermState<T>::TermState(const Term& term, const BlockLayout& layout, std::uint64_t scalars,
                        std::size_t uniforms, std::shared_ptr<TermKernels<T>> kernels,
                        RowRunner* device)
    : term_(term),
      identifier_(identifier(term.name)),
      structure_version_(term.batch->structure_version()),
      index_(build_index(*term.batch, layout, scalars, uniforms)),
      data_(*term.batch),
      kernels_(std::move(kernels)),
      costs_(term_, index_),
      device_(device),
      scalars_(scalars),
      uniforms_(uniforms) {}

template <class T>
bool TermState<T>::is_current(const Term& term) const {
  return term.topology == term_.topology && term.batch == term_.batch && term.loss == term_.loss &&
         term.batch->structure_version() == structure_version_;
}

template <class T>
ColumnSource<T> TermState<T>::column_of(const LeafUse& leaf,
                                        std::span<const Column<T>> kept) const {
  if (leaf.op == ir::Op::Seed) return {seeds_[leaf.slot].data()};
  if (leaf.slot < data_.size()) return data_.source(leaf.slot);
  return {kept[leaf.slot - data_.size()].data()};
}

template <class T>
Binding<T> TermState<T>::bind(const TileKernel<T>& kernel, const Vectors<T>& v,
                              std::span<const Column<T>> kept) const {
  const TileProgram& program = kernel.program();
  Binding<T> binding;
  for (const LeafUse& leaf : program.columns) binding.columns.push_back(column_of(leaf, kept));
  for (const LeafUse& leaf : program.gathers) {
    if (leaf.op == ir::Op::Uniform) {
      const UniformSource& slot_source = index_.uniforms[leaf.slot];
      binding.gathers.push_back({v.uniforms + slot_source.position, nullptr});
      if (slot_source.column.size() > 0)
        binding.gathers.back() = {v.uniforms, slot_source.column.data()};
      continue;
    }
    const SlotSource& slot_source = index_.slots[leaf.slot];
    const T* from = leaf.op == ir::Op::Tangent ? v.p : v.x;
    binding.gathers.push_back(
        {from + slot_source.offset, index_.block_slots[slot_source.block_slot].base.data()});
  }
  return binding;
}

/// Binds the first `count` outputs to columns and makes missing ones.
template <class T>
Binding<T> TermState<T>::bind_columns(const Kernel<T>& kernel, const Vectors<T>& v,
                                      std::span<const Column<T>> kept, std::size_t count,
                                      std::vector<Column<T>>& columns) const {
  const std::size_t length = whole_tiles(index_.instances);
  while (columns.size() < count) columns.emplace_back(length);
  Binding<T> binding = bind(kernel.tile, v, kept);
  binding.outputs.resize(kernel.tile.program().outputs, nullptr);
  for (std::size_t k = 0; k < count; ++k) binding.outputs[k] = columns[k].data();
  binding.stream = count * length * sizeof(T) > kCacheBytes;
  return binding;
}

template <class T>
void TermState<T>::run_to_columns(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                                  std::span<const Column<T>> kept,
                                  std::vector<Column<T>>& columns) {
  const Kernel<T>& kernel = this->kernel(part);
  const TimedPass time = timed(part);
  const Sweep<T> sweep =
      begin(pool, workers, part, v,
            bind_columns(kernel, v, kept, kernel.tile.program().outputs, columns));
  run_tiles(pool, workers, *sweep.tile, sweep.binding, index_.instances);
}

template <class T>
RowIndices TermState<T>::row_indices() const {
  const std::size_t n = index_.instances;
  RowIndices indices{.count = n};
  for (const SlotSource& slot_source : index_.slots) {
    std::vector<std::uint32_t>& column = indices.parameters.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i)
      column[i] = index_.block_slots[slot_source.block_slot].base[i] + slot_source.offset;
  }
  for (const UniformSource& slot_source : index_.uniforms) {
    std::vector<std::uint32_t>& column = indices.uniforms.emplace_back(n, slot_source.position);
    if (slot_source.column.size() > 0) std::copy_n(slot_source.column.data(), n, column.data());
  }
  for (std::size_t k = 0; k < data_.size(); ++k) {
    const ColumnSource<T> from = data_.source(k);
    std::vector<double>& column = indices.data.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) column[i] = double{from.from[from.shared ? 0 : i]};
  }
  return indices;
}

template <class T>
std::uint32_t TermState<T>::data_column(const T* numbers) const {
  std::uint32_t column = 0;
  while (data_.source(column).from != numbers) ++column;
  return column;
}

template <class T>
std::unique_ptr<RowKernel> TermState<T>::make_on_device(const Kernel<T>& kernel) const {
  return device_->prepare(kernel.program, row_indices());
}

template <class T>
bool TermState<T>::has_same_bits(Pool& pool, Workers<T>& workers, const Kernel<T>& kernel,
                                 const Vectors<T>& v, const std::vector<Column<T>>& found) const {
  std::vector<Column<T>> here;
  const Binding<T> binding = bind_columns(kernel, v, {}, found.size(), here);
  run_tiles(pool, workers, kernel.tile, binding, index_.instances);
  std::atomic<bool> same = true;
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (std::size_t i = begin; i < end; ++i) {
        const T a = here[k][i], b = found[k][i];
        const bool equal = a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b;
        if (!equal) same = false;
      }
    }
  });
  return same;
}

// A kernel that the device does not take, or whose bits differ, is left to the interpreter.
template <class T>
bool TermState<T>::run_on_device(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                                 std::vector<Column<T>>& found) requires std::is_same_v<T, double> {
  const Kernel<T>& kernel = this->kernel(part);
  OnDevice& there = on_device_[static_cast<std::size_t>(part)];
  if (there.kernel == nullptr && there.is_compared) return false;
  const auto all = [](const double* from, std::size_t size) {
    return from == nullptr ? std::span<const double>() : std::span(from, size);
  };
  RowNumbers numbers{all(v.x, scalars_), all(v.p, scalars_), all(v.uniforms, uniforms_), {}};
  for (const Column<double>& seeds : seeds_)
    numbers.seeds.emplace_back(seeds.data(), index_.instances);
  std::vector<std::vector<double>> columns;
  try {
    if (there.kernel == nullptr) there.kernel = make_on_device(kernel);
    columns = there.kernel->run(numbers);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported) throw;
    there = {.kernel = nullptr, .is_compared = true};
    return false;
  }
  for (const std::vector<double>& column : columns) {
    Column<T>& to = found.emplace_back(whole_tiles(index_.instances));
    std::ranges::copy(column, to.data());
    std::fill(to.data() + column.size(), to.data() + to.size(), T(0));
  }
  if (std::exchange(there.is_compared, true) || has_same_bits(pool, workers, kernel, v, found))
    return true;
  there.kernel = nullptr;
  found.clear();
  return false;
}

template <class T>
Sweep<T> TermState<T>::begin(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                             Binding<T> binding) {
  const Kernel<T>& kernel = this->kernel(part);
  Sweep<T> sweep{&kernel.tile, std::move(binding), {}};
  if constexpr (std::is_same_v<T, double>) {
    // Products with a stored Jacobian have no program of their own.
    if (device_ == nullptr || kernel.program.nodes.empty() || index_.instances == 0) return sweep;
    if (!run_on_device(pool, workers, part, v, sweep.found)) return sweep;
    if (part != Part::Guards) ++runs_on_device_;
    auto& copy = copies_[static_cast<std::size_t>(part)];
    if (copy == nullptr)
      copy = std::make_unique<const TileKernel<T>>(copies(sweep.found.size()), kernel.tile.ops());
    sweep.tile = copy.get();
    sweep.binding.gathers.clear();
    sweep.binding.columns.clear();
    for (const LeafUse& leaf : copy->program().columns)
      sweep.binding.columns.push_back({sweep.found[leaf.slot].data()});
  }
  return sweep;
}

template <class T>
Stored<T> TermState<T>::stored(const OutputSource& source,
                               const std::vector<Column<T>>& columns) const {
  switch (source.kind) {
    case OutputSource::Kind::Literal: return {nullptr, source.scale};
    case OutputSource::Kind::Column: return {columns[source.index].data(), source.scale};
    case OutputSource::Kind::Data: return data_.stored(source.index, source.scale);
  }
  return {};
}

template <class T>
void TermState<T>::set_seeds(Pool& pool, std::span<const double> seeds) {
  while (seeds_.size() < rows()) seeds_.emplace_back(whole_tiles(index_.instances));
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = 0; k < rows(); ++k) {
      for (std::size_t i = begin; i < end; ++i) {
        seeds_[k][i] = static_cast<T>(seeds[index_.row(i) + k]);
      }
    }
  });
  for (Column<T>& column : seeds_) {
    std::fill(column.data() + index_.instances, column.data() + column.size(), T(0));
  }
}

template <class T>
void TermState<T>::add_terms(Pool& pool, Workers<T>& workers, Part part, const Vectors<T>& v,
                             const BlockLayout& layout, T* out) {
  run_to_columns(pool, workers, part, v, {}, terms_);
  add_stored(pool, kernel(part), layout, out);
}

template <class T>
void TermState<T>::add_stored(Pool& pool, const Kernel<T>& kernel, const BlockLayout& layout,
                              T* out) {
  const TimedPass time = timed("gather");
  Products<T> products(index_.block_slots.size());
  for (std::size_t r = 0; r < products.size(); ++r) {
    const BlockSlot& block_slot = index_.block_slots[r];
    for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
      const Stored<T> term = stored(kernel.sources[block_slot.slots[k]], terms_);
      if (term.scale == 0) continue;
      products[r].push_back(
          {term.column, nullptr, term.scale, block_slot.coordinate + block_slot.offsets[k]});
    }
  }
  add_to_vector(pool, index_, layout, products, out);
}

template <class T>
void TermState<T>::add_gradient(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                                const BlockLayout& layout, T* out, std::span<double> rows,
                                CostSum& cost) {
  const bool with_rows = !rows.empty() && !energy();
  const Part part = with_rows ? Part::Values : Part::CostGradient;
  const Kernel<T>& kernel = this->kernel(part);
  const TimedPass time = timed(part);
  const Sweep<T> sweep =
      begin(pool, workers, part, v, bind_columns(kernel, v, {}, kernel.columns, terms_));
  const std::size_t first_row = kernel.columns + (term_.loss == nullptr ? 0 : 1);
  std::vector<double> costs = costs_.make(cost);
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      worker.run(*sweep.tile, sweep.binding, first, n);
      costs_.write(worker, kernel.columns, first, n, cost, costs);
      if (with_rows) copy_rows(worker, first_row, first, n, rows);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as in run_tiles
  });
  add_stored(pool, kernel, layout, out);
  costs_.add(pool, costs, layout, cost);
}

template <class T>
void TermState<T>::copy_rows(const Worker<T>& worker, std::size_t output, std::size_t first,
                             std::size_t n, std::span<double> out) const {
  const std::size_t rows = this->rows();
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t row = index_.row(first + i);
    for (std::size_t k = 0; k < rows; ++k) out[row + k] = double{worker.output(output + k)[i]};
  }
}

template <class T>
void TermState<T>::add_cost(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                            const BlockLayout& layout, CostSum& cost) {
  std::vector<double> costs = costs_.make(cost);
  for_tiles(pool, workers, term_.loss == nullptr ? Part::Residual : Part::Cost, v,
            [&](const Worker<T>& worker, std::size_t first, std::size_t n) {
              costs_.write(worker, 0, first, n, cost, costs);
            });
  costs_.add(pool, costs, layout, cost);
}

template <class T>
std::vector<std::uint32_t> TermState<T>::failed(Pool& pool, Workers<T>& workers,
                                                const Vectors<T>& v) {
  std::vector<std::uint32_t> out;
  std::mutex mutex;
  for_tiles(pool, workers, Part::Guards, v,
            [&](const Worker<T>& worker, std::size_t first, std::size_t n) {
              const T* fails = worker.output(0);
              for (std::size_t i = 0; i < n; ++i) {
                if (fails[i] == 0) continue;
                const std::lock_guard lock(mutex);
                out.push_back(static_cast<std::uint32_t>(first + i));
              }
            });
  std::sort(out.begin(), out.end());
  return out;
}

template class TermState<float>;
template class TermState<double>;

template <class T>
DataColumns<T>::DataColumns(const ir::Batch& batch)
    : version_(batch.data_version()), columns_(batch.data_columns()) {
  read(batch);
}

template <class T>
bool DataColumns<T>::refresh(const ir::Batch& batch) {
  if (version_ == batch.data_version()) return false;
  version_ = batch.data_version();
  read(batch);
  return true;
}

template <class T>
void DataColumns<T>::read(const ir::Batch& batch) {
  for (std::uint32_t k = 0; k < columns_.size(); ++k) {
    const std::optional<double> shared = shared_number(batch, k);
    columns_[k].shared = shared.has_value();
    if (shared) {
      columns_[k].numbers = Column<T>(kTile);
      std::fill_n(columns_[k].numbers.data(), kTile, static_cast<T>(*shared));
    } else {
      columns_[k].numbers = read_data_column<T>(batch, k);
    }
  }
}

template <class T>
Stored<T> DataColumns<T>::stored(std::size_t column, double scale) const {
  const Numbers& from = columns_[column];
  if (from.shared) return {nullptr, scale * static_cast<double>(from.numbers[0])};
  return {from.numbers.data(), scale};
}

template <class T>
std::uint64_t DataColumns<T>::bytes() const {
  std::uint64_t total = 0;
  for (const Numbers& column : columns_) total += bytes_of(column.numbers);
  return total;
}

template class DataColumns<float>;
template class DataColumns<double>;

namespace {

Pass pass_of(Part part) {
  switch (part) {
    case Part::Residual: return Pass::residual;
    case Part::Gradient: return Pass::gradient;
    case Part::Vjp: return Pass::vjp;
    case Part::Jtjp: return Pass::jtjp;
    case Part::Jvp: return Pass::jvp;
    case Part::Jacobian: return Pass::jacobian;
    case Part::Linear: return Pass::stored_jacobian;
    case Part::ApplyLinear:
    case Part::JtjpLinear: return Pass::stored_jtjp;
    case Part::Hvp: return Pass::hvp;
    case Part::Hessian: return Pass::hessian;
    case Part::Cost: return Pass::cost;
    case Part::Guards: return Pass::guards;
    case Part::CostGradient: return Pass::cost_gradient;
    case Part::Values: return Pass::values;
  }
  return Pass::residual;
}

/// As kernels are named, after the label of the residuals.
const char* name_of(Part part) {
  switch (part) {
    case Part::Residual: return "residual";
    case Part::Gradient: return "gradient";
    case Part::Vjp: return "vjp";
    case Part::Jtjp: return "jtjp";
    case Part::Jvp: return "jvp";
    case Part::Jacobian: return "jacobian";
    case Part::Linear: return "stored_jacobian";
    case Part::ApplyLinear: return "stored_jvp";
    case Part::JtjpLinear: return "stored_jtjp";
    case Part::Hvp: return "hvp";
    case Part::Hessian: return "hessian";
    case Part::Cost: return "cost";
    case Part::Guards: return "guards";
    case Part::CostGradient: return "cost_gradient";
    case Part::Values: return "values";
  }
  return "residual";
}

/// True if the part's stored terms are summed by block.
bool is_summed(Part part) {
  return part == Part::Gradient || part == Part::Vjp || part == Part::Jtjp || part == Part::Hvp ||
         part == Part::CostGradient || part == Part::Values;
}

}  // namespace

/// Bytes per instance of the columns that the kernel reads, and of what it stores.
template <class T>
std::uint64_t TermState<T>::bytes_of_instance(const Kernel<T>& kernel) const {
  std::uint64_t bytes = kernel.columns * sizeof(T);
  for (const LeafUse& leaf : kernel.tile.program().columns) {
    const bool shared =
        leaf.op == ir::Op::Data && leaf.slot < data_.size() && data_.is_shared(leaf.slot);
    bytes += shared ? 0 : sizeof(T);
  }
  std::set<std::uint32_t> block_slots;
  for (const LeafUse& leaf : kernel.tile.program().gathers) {
    if (leaf.op != ir::Op::Uniform) {
      block_slots.insert(index_.slots[leaf.slot].block_slot);
    } else if (index_.uniforms[leaf.slot].column.size() > 0) {
      bytes += sizeof(std::uint32_t);
    }
  }
  return bytes + block_slots.size() * sizeof(std::uint32_t);
}

template <class T>
TimedPass TermState<T>::timed(Part part) {
  return {name_of(part), identifier_, term_.topology, [&] {
            std::uint64_t& bytes = bytes_of_part_[static_cast<std::size_t>(part)];
            if (bytes == 0) bytes = index_.instances * bytes_of_instance(kernel(part));
            return bytes;
          }};
}

template <class T>
std::vector<PlanChoice> TermState<T>::kernels_made() const {
  std::vector<PlanChoice> made;
  for (std::size_t k = 0; k < kParts; ++k) {
    const Part part = static_cast<Part>(k);
    const Kernel<T>* const kernel = kernels_->made(part);
    if (kernel == nullptr) continue;
    PlanChoice& choice = made.emplace_back();
    choice.topology = to_string(term_.topology->hash);
    choice.name = term_.name;
    choice.pass = name(pass_of(part));
    choice.instances = index_.instances;
    choice.accumulation = codegen::Accumulation::gather_store;
    choice.one_pass = part == Part::CostGradient || part == Part::Values;
    choice.operations = index_.instances * kernel->operations;
    choice.bytes = index_.instances * bytes_of_instance(*kernel);
    if (!is_summed(part)) continue;
    choice.entries = index_.block_lists.entries.size();
    choice.bytes +=
        index_.instances * kernel->columns * sizeof(T) + choice.entries * sizeof(std::uint32_t);
  }
  return made;
}

template <class T>
typename TermState<T>::Bytes TermState<T>::bytes() const {
  Bytes total;
  for (const BlockSlot& block_slot : index_.block_slots) total.index += bytes_of(block_slot.base);
  for (const UniformSource& slot_source : index_.uniforms)
    total.index += bytes_of(slot_source.column);
  total.index += bytes_of(index_.rows);
  const BlockLists& lists = index_.block_lists;
  total.lists = bytes_of(lists.blocks) + bytes_of(lists.starts) + bytes_of(lists.entries) +
                bytes_of(lists.segments);
  total.data = data_.bytes();
  total.stored = bytes_of(terms_) + bytes_of(seeds_);
  return total;
}

template TimedPass TermState<float>::timed(Part part);
template TimedPass TermState<double>::timed(Part part);
template std::vector<PlanChoice> TermState<float>::kernels_made() const;
template std::vector<PlanChoice> TermState<double>::kernels_made() const;
template typename TermState<float>::Bytes TermState<float>::bytes() const;
template typename TermState<double>::Bytes TermState<double>::bytes() const;

}  // namespace topograd::runtime::cpu
