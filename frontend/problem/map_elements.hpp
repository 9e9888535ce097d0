// The elements of a map: slices of its columns, groups of equal ones, and reads while it is traced.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "../../ir/machine/parallel.hpp"
#include "../problem.hpp"
#include "extract.hpp"

namespace topograd::detail {

/// Elements per piece of a parallel loop over a map's elements; a loop with fewer runs on the
/// caller's thread.
inline constexpr std::size_t kPieceOfElements = 16384;

/// f(piece, begin, end) for consecutive pieces of `count` elements.
template <class F>
void for_pieces(std::size_t count, std::size_t piece, const F& f) {
  const std::size_t pieces = (count + piece - 1) / piece;
  const auto run = [&](std::size_t k) { f(k, k * piece, std::min(count, (k + 1) * piece)); };
  if (pieces < 2) {
    if (pieces == 1) run(0);
    return;
  }
  ir::parallel_for(std::size_t{0}, pieces, run);
}

/// Groups 0 .. count - 1 by their keys. Returns the first position of each class, ascending: class
/// numbers do not depend on the number of threads.
///
///   key_of(k, key)  writes the key of k into `key`, which may hold another one; called on any
///   thread class_of(k)     reference to the class number of k
template <class Key, class KeyOf, class ClassOf>
std::vector<std::size_t> classify(std::size_t count, const KeyOf& key_of, const ClassOf& class_of) {
  struct Piece {
    std::vector<std::pair<Key, std::size_t>> found;  // keys with their first positions
    std::vector<std::uint32_t> classes;              // class number of each key
  };
  std::vector<Piece> pieces((count + kPieceOfElements - 1) / kPieceOfElements);
  for_pieces(count, kPieceOfElements, [&](std::size_t piece, std::size_t begin, std::size_t end) {
    std::map<Key, std::uint32_t> number_of;
    const Key* last = nullptr;  // neighbours usually have equal keys
    std::uint32_t number = 0;
    Key key;
    for (std::size_t k = begin; k < end; ++k) {
      key_of(k, key);
      if (last == nullptr || key != *last) {
        const auto next = static_cast<std::uint32_t>(number_of.size());
        const auto [at, is_new] = number_of.try_emplace(key, next);
        if (is_new) pieces[piece].found.emplace_back(key, k);
        last = &at->first;
        number = at->second;
      }
      class_of(k) = number;
    }
  });
  std::vector<std::size_t> first;
  std::map<Key, std::uint32_t> number_of;
  for (Piece& piece : pieces) {
    for (auto& [key, at] : piece.found) {
      const auto next = static_cast<std::uint32_t>(first.size());
      const auto [known, is_new] = number_of.try_emplace(std::move(key), next);
      if (is_new) first.push_back(at);
      piece.classes.push_back(known->second);
    }
  }
  if (first.size() < 2) return first;  // all have class 0
  for_pieces(count, kPieceOfElements, [&](std::size_t piece, std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) class_of(k) = pieces[piece].classes[class_of(k)];
  });
  return first;
}

/// The address of a symbolic leaf: entry base + (indices[column] + shift) * width of x or of the
/// problem's data; if direct, the element's own number `column`.
struct AddressForm {
  bool direct = false;
  std::uint32_t column = 0;
  std::uint32_t base = 0;
  std::uint32_t width = 1;
  std::uint32_t blocks = 0;  ///< size of the array; indices[column] + shift must be less
  std::int64_t shift = 0;
  bool data = false;  ///< a data array, for messages

  friend bool operator==(const AddressForm&, const AddressForm&) = default;
  friend auto operator<=>(const AddressForm&, const AddressForm&) = default;

  /// The block for an index of the column; out of range if negative or >= blocks.
  std::int64_t block(std::uint32_t index) const { return index + shift; }
  std::uint32_t entry(std::uint32_t index) const {
    return base + static_cast<std::uint32_t>(block(index)) * width;
  }
};

/// One trace of a map's callable: the shape of its elements and the reads found so far.
struct MapTrace {
  std::uint32_t problem = 0;  ///< serial
  std::uint32_t serial = 0;
  int valence = 0;
  int data_count = 0;
  std::vector<AddressForm> forms;                      ///< by the number that a symbolic leaf holds
  std::map<AddressForm, std::uint32_t> first_of = {};  ///< number of the first equal form

  /// Number of the form, which is added if it is new: all reads of it share one leaf.
  std::uint32_t shared(const AddressForm& form);
  /// Number of the form, which is always added: each read is a leaf of its own.
  std::uint32_t added(const AddressForm& form);
};

/// A serial that no other problem or map of this process has.
std::uint32_t next_serial();

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
