// Kernels of one batch: made on first use, bound to its columns, run over its tiles.
#include "term.hpp"

#include "../../../autodiff/robust.hpp"
#include "../../../autodiff/second_order.hpp"
#include "../../../ir/passes/guards.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../plan/column_forms.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

namespace topograd::runtime::cpu {
namespace {

// Larger columns (their sum) are written past the caches.
constexpr std::size_t kCacheBytes = std::size_t{4} << 20;

bool is_stored(Part part) {
  return part == Part::Gradient || part == Part::Vjp || part == Part::Jtjp ||
         part == Part::Linear || part == Part::Hvp || part == Part::CostGradient ||
         part == Part::Values;
}

/// The gradient's outputs, then the rows; their squares are summed in double.
ir::Program gradient_and_rows(const ir::Program& f, std::span<const std::uint32_t> slots) {
  ir::Program program = autodiff::gradient_and_cost(f, slots, true);
  program.outputs.erase(program.outputs.begin() + static_cast<std::ptrdiff_t>(slots.size()));
  return ir::remove_dead(program);
}

ir::Program program_of(Part part, const ir::Program& f, bool energy) {
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  if (energy && part == Part::Gradient) return autodiff::scalar_gradient(f, slots);
  if (energy && (part == Part::CostGradient || part == Part::Values))
    return autodiff::scalar_gradient_and_value(f, slots);
  switch (part) {
    case Part::Residual:
    case Part::ApplyLinear:
    case Part::JtjpLinear: return f;
    case Part::Gradient: return autodiff::gradient(f, slots);
    case Part::Vjp: return autodiff::vjp(f, slots);
    case Part::Jtjp: return autodiff::jtjp(f, slots);
    case Part::Jvp: return autodiff::jvp(f);
    case Part::Jacobian: return autodiff::jacobian(f, slots);
    case Part::Linear: return autodiff::residual_and_jacobian(f, slots);
    case Part::Hvp: return autodiff::hvp(energy ? f : autodiff::cost(f), slots);
    case Part::Hessian: return autodiff::hessian(energy ? f : autodiff::cost(f), slots);
    case Part::Cost: return autodiff::cost(f);
    case Part::Guards: return ir::guard_failure(f);
    case Part::CostGradient:
    case Part::Values: return gradient_and_rows(f, slots);
  }
  return f;
}

ir::Program program_of(Part part, const autodiff::Robust& f) {
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f.residual);
  switch (part) {
    case Part::Residual: return autodiff::residual(f);
    case Part::ApplyLinear:
    case Part::JtjpLinear: return f.residual;
    case Part::Gradient: return autodiff::gradient(f, slots);
    case Part::Vjp: return autodiff::vjp(f, slots);
    case Part::Jtjp: return autodiff::jtjp(f, slots);
    case Part::Jvp: return autodiff::jvp(f);
    case Part::Jacobian: return autodiff::jacobian(f, slots);
    case Part::Linear: return autodiff::residual_and_jacobian(f, slots);
    case Part::Hvp: return autodiff::hvp(autodiff::cost(f), slots);
    case Part::Hessian: return autodiff::hessian(autodiff::cost(f), slots);
    case Part::Cost: return autodiff::cost(f);
    case Part::Guards: return ir::guard_failure(f.residual);
    case Part::CostGradient: return autodiff::gradient_and_cost(f, slots, false);
    case Part::Values: return autodiff::gradient_and_cost(f, slots, true);
  }
  return f.residual;
}

ir::Program program_of(Part part, const Term& term) {
  const ir::Program& f = term.topology->program;
  return term.loss == nullptr ? program_of(part, f, term.energy)
                              : program_of(part, autodiff::Robust{f, *term.loss});
}

}  // namespace

template <class T>
TermState<T>::TermState(const Term& term, const BlockLayout& layout, std::uint64_t scalars,
                        std::size_t uniforms, std::shared_ptr<Kernels> kernels)
    : term_(term),
      structure_version_(term.batch->structure_version()),
      index_(build_index(*term.batch, layout, scalars, uniforms)),
      kernels_(std::move(kernels)) {
  data_.resize(term.batch->data_columns());
  data_version_ = term.batch->data_version() - 1;
  refresh_data();
}

template <class T>
bool TermState<T>::is_current(const Term& term) const {
  return term.topology == term_.topology && term.batch == term_.batch && term.loss == term_.loss &&
         term.batch->structure_version() == structure_version_;
}

template <class T>
void TermState<T>::refresh_data() {
  if (data_version_ == term_.batch->data_version()) return;
  data_version_ = term_.batch->data_version();
  for (std::uint32_t k = 0; k < data_.size(); ++k) {
    const std::optional<double> shared = shared_number(*term_.batch, k);
    data_[k].shared = shared.has_value();
    if (shared) {
      data_[k].numbers = Column<T>(kTile);
      std::fill_n(data_[k].numbers.data(), kTile, static_cast<T>(*shared));
    } else {
      data_[k].numbers = read_data_column<T>(*term_.batch, k);
    }
  }
}

template <class T>
const typename TermState<T>::Kernel& TermState<T>::kernel(Part part) {
  std::unique_ptr<const Kernel>& kernel = (*kernels_)[static_cast<std::size_t>(part)];
  if (kernel == nullptr) kernel = std::make_unique<const Kernel>(make_kernel(part));
  return *kernel;
}

template <class T>
typename TermState<T>::Kernel TermState<T>::make_kernel(Part part) {
  const ir::Program& f = term_.topology->program;
  if (part == Part::ApplyLinear || part == Part::JtjpLinear) {
    const Kernel& linear = kernel(Part::Linear);
    const std::span<const OutputSource> jacobian = std::span(linear.sources).subspan(rows());
    const std::uint32_t columns = linear.tile.program().outputs;
    const auto of = part == Part::ApplyLinear ? stored_jvp : stored_jtjp;
    const ir::Program product = of(jacobian, rows(), f.leaves, columns);
    return {TileKernel<T>(product), {}, 0, ir::operation_count(product)};
  }
  const ir::Program program = program_of(part, term_);
  if (!is_stored(part)) return {TileKernel<T>(program), {}, 0, ir::operation_count(program)};
  const bool values = part == Part::CostGradient || part == Part::Values;
  const std::size_t terms = values ? slots() : program.outputs.size();
  CompactProgram compacted = compact(program, terms);
  const std::size_t columns = compacted.program.outputs.size() - (program.outputs.size() - terms);
  const std::uint64_t operations = ir::operation_count(compacted.program);
  return {TileKernel<T>(compacted.program), std::move(compacted.sources), columns, operations};
}

// Data slots after the batch's are columns that linearize() wrote.
template <class T>
ColumnSource<T> TermState<T>::column_of(const LeafUse& leaf) const {
  if (leaf.op == ir::Op::Seed) return {seeds_[leaf.slot].data()};
  if (leaf.slot < data_.size()) return {data_[leaf.slot].numbers.data(), data_[leaf.slot].shared};
  return {linear_[leaf.slot - data_.size()].data()};
}

template <class T>
Binding<T> TermState<T>::bind(const TileKernel<T>& kernel, const Vectors<T>& v) const {
  const TileProgram& program = kernel.program();
  Binding<T> binding;
  for (const LeafUse& leaf : program.columns) binding.columns.push_back(column_of(leaf));
  for (const LeafUse& leaf : program.gathers) {
    if (leaf.op == ir::Op::Uniform) {
      const UniformPlace& place = index_.uniforms[leaf.slot];
      binding.gathers.push_back({v.uniforms + place.position, nullptr});
      if (place.column.size() > 0) binding.gathers.back() = {v.uniforms, place.column.data()};
      continue;
    }
    const SlotPlace& place = index_.slots[leaf.slot];
    const T* from = leaf.op == ir::Op::Tangent ? v.p : v.x;
    binding.gathers.push_back({from + place.offset, index_.roles[place.role].base.data()});
  }
  return binding;
}

/// Binds the first `count` outputs to columns and makes missing ones.
template <class T>
Binding<T> TermState<T>::bind_columns(const Kernel& kernel, const Vectors<T>& v, std::size_t count,
                                      std::vector<Column<T>>& columns) const {
  const std::size_t length = whole_tiles(index_.instances);
  while (columns.size() < count) columns.emplace_back(length);
  Binding<T> binding = bind(kernel.tile, v);
  binding.outputs.resize(kernel.tile.program().outputs, nullptr);
  for (std::size_t k = 0; k < count; ++k) binding.outputs[k] = columns[k].data();
  binding.stream = count * length * sizeof(T) > kCacheBytes;
  return binding;
}

template <class T>
void TermState<T>::run_to_columns(Pool& pool, Workers<T>& workers, const Kernel& kernel,
                                  const Vectors<T>& v, std::vector<Column<T>>& columns) {
  const Binding<T> binding = bind_columns(kernel, v, kernel.tile.program().outputs, columns);
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      worker.run(kernel.tile, binding, first, std::min(kTile, end - first));
    }
    // The end of the range does not order streaming stores.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

template <class T>
Stored<T> TermState<T>::stored(const OutputSource& source,
                               const std::vector<Column<T>>& columns) const {
  switch (source.kind) {
    case OutputSource::Kind::Literal: return {nullptr, source.scale};
    case OutputSource::Kind::Column: return {columns[source.index].data(), source.scale};
    case OutputSource::Kind::Data: {
      const Data& data = data_[source.index];
      if (data.shared) return {nullptr, source.scale * static_cast<double>(data.numbers[0])};
      return {data.numbers.data(), source.scale};
    }
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
  const Kernel& kernel = this->kernel(part);
  run_to_columns(pool, workers, kernel, v, terms_);
  add_stored(pool, kernel, layout, out);
}

template <class T>
void TermState<T>::add_stored(Pool& pool, const Kernel& kernel, const BlockLayout& layout, T* out) {
  Products<T> products(index_.roles.size());
  for (std::size_t r = 0; r < products.size(); ++r) {
    const Role& role = index_.roles[r];
    for (std::size_t k = 0; k < role.slots.size(); ++k) {
      const Stored<T> term = stored(kernel.sources[role.slots[k]], terms_);
      if (term.scale == 0) continue;
      products[r].push_back({term.column, nullptr, term.scale, role.coordinate + role.offsets[k]});
    }
  }
  add_to_vector(pool, index_, layout, products, out);
}

template <class T>
double TermState<T>::add_gradient(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                                  const BlockLayout& layout, T* out, std::span<double> rows) {
  const bool with_rows = !rows.empty() && !energy();
  const Kernel& kernel = this->kernel(with_rows ? Part::Values : Part::CostGradient);
  const Binding<T> binding = bind_columns(kernel, v, kernel.columns, terms_);
  const std::size_t first_row = kernel.columns + (term_.loss == nullptr ? 0 : 1);
  std::vector<double> tiles(whole_tiles(index_.instances) / kTile);
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    Worker<T>& worker = workers.local();
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t n = std::min(kTile, end - first);
      worker.run(kernel.tile, binding, first, n);
      tiles[first / kTile] = tile_cost(worker, kernel.columns, n);
      if (with_rows) copy_rows(worker, first_row, first, n, rows);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as in run_to_columns
  });
  add_stored(pool, kernel, layout, out);
  return pairwise_sum(tiles);
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

}  // namespace topograd::runtime::cpu
