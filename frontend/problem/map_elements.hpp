// The elements of a map: slices of its index and data columns, sizes and ranges checked.
#pragma once

#include "../problem.hpp"
#include "extract.hpp"
#include "map_trace.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace topograd::detail {

/// The part of a flat array that belongs to one element.
struct Slice {
  std::size_t first = 0;
  std::size_t size = 0;
};

/// The division of a flat array among elements: into equal rows, or at offsets.
class Division {
 public:
  /// Throws Error{Shape} if `size` numbers cannot be divided among `count` elements in this way.
  Division(const char* name, std::size_t count, std::size_t size,
           std::span<const std::uint32_t> offsets, const Caller& caller);

  bool equal_rows() const { return offsets_.empty(); }
  Slice operator[](std::size_t element) const {
    if (offsets_.empty()) return {element * width_, width_};
    return {offsets_[element], offsets_[element + 1] - offsets_[element]};
  }

 private:
  std::span<const std::uint32_t> offsets_;
  std::size_t width_ = 0;
};

/// Elements that share one trace.
struct ElementShape {
  int valence = 0;
  int data_count = 0;
  std::vector<std::size_t> elements;  ///< ascending
};

class MapElements {
 public:
  MapElements(std::size_t count, const MapOptions& options, const Caller& caller);

  std::size_t size() const { return count_; }
  /// The elements grouped by valence and number of data, in the order in which these first appear.
  std::vector<ElementShape> shapes() const;

  std::uint32_t index(std::size_t element, std::uint32_t column) const {
    return options_.indices[indices_[element].first + column];
  }
  double data(std::size_t element, std::uint32_t column) const {
    return options_.data[data_[element].first + column];
  }
  /// The entry that an index form reads in an element.
  std::uint32_t entry(const AddressForm& form, std::size_t element) const {
    return form.entry(index(element, form.column));
  }
  std::span<const std::uint32_t> indices(std::size_t element) const {
    return options_.indices.subspan(indices_[element].first, indices_[element].size);
  }
  std::span<const double> data(std::size_t element) const {
    return options_.data.subspan(data_[element].first, data_[element].size);
  }

  /// Throws Error{InvalidArgument} with the first element whose index is out of an array's range.
  void check_ranges(std::span<const AddressForm> read, std::span<const std::size_t> elements,
                    const Caller& caller) const;

 private:
  std::size_t count_;
  const MapOptions& options_;
  Division indices_, data_;
};

}  // namespace topograd::detail
