// The stored linearisation of one batch: r and J in columns, J·p and Jᵀu from them.
#include "term.hpp"

namespace topograd::runtime::cpu {
namespace {

// Sum of squares over a tile in double, in an order that is independent of the rows' position.
class TileSquares {
 public:
  template <class T>
  void add(const T* row, double scale, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double r = row == nullptr ? scale : scale * double{row[i]};
      lanes_[i % kLanes] += r * r;
    }
  }
  double sum() const { return pairwise_sum(lanes_); }

 private:
  double lanes_[kLanes] = {};
};

}  // namespace

template <class T>
void TermState<T>::linearize(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  run_to_columns(pool, workers, kernel(Part::Linear), v, linear_);
}

template <class T>
std::vector<Stored<T>> TermState<T>::stored_residuals() const {
  const Kernel& linear = linear_kernel();
  std::vector<Stored<T>> residuals;
  for (std::size_t row = 0; row < rows(); ++row) {
    residuals.push_back(stored(linear.sources[row], linear_));
  }
  return residuals;
}

template <class T>
StoredJacobian<T> TermState<T>::stored_jacobian() const {
  const Kernel& linear = linear_kernel();
  StoredJacobian<T> jacobian{.rows = rows(), .columns = slots()};
  for (std::size_t k = rows(); k < linear.sources.size(); ++k) {
    jacobian.entries.push_back(stored(linear.sources[k], linear_));
  }
  return jacobian;
}

// Jᵀ times rows, by role.
template <class T>
Products<T> TermState<T>::products_with(std::span<const Stored<T>> rows) const {
  const StoredJacobian<T> jacobian = stored_jacobian();
  Products<T> products(index_.roles.size());
  for (std::size_t r = 0; r < products.size(); ++r) {
    const Role& role = index_.roles[r];
    for (std::size_t k = 0; k < role.slots.size(); ++k) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const Stored<T>& entry = jacobian.at(row, role.slots[k]);
        const double scale = entry.scale * rows[row].scale;
        if (scale == 0) continue;
        products[r].push_back(
            {entry.column, rows[row].column, scale, role.coordinate + role.offsets[k]});
      }
    }
  }
  return products;
}

template <class T>
void TermState<T>::add_linear_gradient(Pool& pool, const BlockLayout& layout, T* out) {
  add_to_vector(pool, index_, layout, products_with(stored_residuals()), out);
}

template <class T>
void TermState<T>::add_linear_blocks(Pool& pool, const BlockLayout& layout, T* out) {
  add_diagonal_blocks(pool, index_, layout, stored_jacobian(), out);
}

template <class T>
void TermState<T>::add_linear_diagonal(Pool& pool, const BlockLayout& layout, T* out) {
  add_diagonal(pool, index_, layout, stored_jacobian(), out);
}

template <class T>
void TermState<T>::copy_jacobian(Pool& pool, const std::vector<std::uint8_t>& constant,
                                 std::span<double> out) const {
  const StoredJacobian<T> jacobian = stored_jacobian();
  const std::size_t entries = jacobian.entries.size();
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += kTile) {
      const std::size_t last = std::min(first + kTile, end);
      for (std::size_t entry = 0; entry < entries; ++entry) {
        const Stored<T>& from = jacobian.entries[entry];
        double* to = out.data() + first * entries + entry;
        for (std::size_t i = first; i < last; ++i, to += entries)
          *to = from.column == nullptr ? from.scale : from.scale * double{from.column[i]};
      }
    }
    if (constant.empty()) return;
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      const SlotPlace& place = index_.slots[slot];
      for (std::size_t i = begin; i < end; ++i) {
        if (constant[index_.roles[place.role].base[i] + place.offset] == 0) continue;
        for (std::size_t row = 0; row < jacobian.rows; ++row)
          out[i * entries + row * slots() + slot] = 0;
      }
    }
  });
}

template <class T>
void TermState<T>::apply(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  run_to_columns(pool, workers, kernel(Part::ApplyLinear), {v.p, v.p, v.uniforms}, applied_);
}

template <class T>
void TermState<T>::add_linear_jtjp(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                                   const BlockLayout& layout, std::size_t scalars, T* out) {
  if (index_.instances == 0) return;
  if (!windows_) windows_.emplace(index_);
  if (!windows_->pay()) {
    apply(pool, workers, v);
    add_to_vector(pool, index_, layout, products_with(applied_rows()), out);
    return;
  }
  const TileKernel<T>& tile = kernel(Part::JtjpLinear).tile;
  const Binding<T> binding = bind(tile, {v.p, v.p, v.uniforms});
  const auto run = [&](std::size_t first, std::size_t n) {
    Worker<T>& worker = workers.local();
    worker.run(tile, binding, first, n);
    return [&worker](std::size_t slot) { return worker.output(slot); };
  };
  windows_->add(pool, scalars, run, out);
}

template <class T>
std::vector<Stored<T>> TermState<T>::applied_rows() const {
  std::vector<Stored<T>> rows;
  rows.reserve(applied_.size());
  for (const Column<T>& column : applied_) rows.push_back({column.data(), 1});
  return rows;
}

template <class T>
double TermState<T>::tile_cost(const Worker<T>& worker, std::size_t output, std::size_t n) const {
  if (term_.energy) {
    std::array<double, kTile> values;
    std::copy_n(worker.output(output), n, values.data());
    return pairwise_sum(std::span(values).first(n));
  }
  if (term_.loss != nullptr) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double{worker.output(output)[i]};
    return 2 * sum;
  }
  TileSquares squares;
  for (std::size_t k = 0; k < rows(); ++k) squares.add(worker.output(output + k), 1.0, n);
  return squares.sum();
}

template <class T>
double TermState<T>::cost(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  std::vector<double> tiles(whole_tiles(index_.instances) / kTile);
  for_tiles(pool, workers, term_.loss == nullptr ? Part::Residual : Part::Cost, v,
            [&](const Worker<T>& worker, std::size_t first, std::size_t n) {
              tiles[first / kTile] = tile_cost(worker, 0, n);
            });
  return pairwise_sum(tiles);
}

template <class T>
double TermState<T>::square(Pool& pool, std::span<const Stored<T>> rows) const {
  std::vector<double> tiles(whole_tiles(index_.instances) / kTile);
  pool.for_ranges(index_.instances, kInstancesPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += kTile) {
      TileSquares squares;
      for (const Stored<T>& row : rows) {
        const T* column = row.column == nullptr ? nullptr : row.column + first;
        squares.add(column, row.scale, std::min(kTile, end - first));
      }
      tiles[first / kTile] = squares.sum();
    }
  });
  return pairwise_sum(tiles);
}

template <class T>
double TermState<T>::linear_residual_square(Pool& pool, Workers<T>& workers, const Vectors<T>& v) {
  if (term_.loss != nullptr) return cost(pool, workers, v);
  return square(pool, stored_residuals());
}

template <class T>
double TermState<T>::applied_square(Pool& pool) const {
  return square(pool, applied_rows());
}

template class TermState<float>;
template class TermState<double>;

}  // namespace topograd::runtime::cpu
