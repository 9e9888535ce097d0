// Reads data columns for the CPU's kernels.
#include "data_columns.hpp"

#include "../../plan/column_forms.hpp"
#include "../tiles/column_bytes.hpp"

#include <algorithm>
#include <optional>

namespace topograd::runtime::cpu {

template <class T>
DataColumns<T>::DataColumns(const ir::Batch& batch)
    : version_(batch.data_version()), columns_(batch.data_columns()) {
  read(batch);
}

template <class T>
void DataColumns<T>::refresh(const ir::Batch& batch) {
  if (version_ == batch.data_version()) return;
  version_ = batch.data_version();
  read(batch);
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

}  // namespace topograd::runtime::cpu
