// Parts of a map: elements whose rows are instances of one topology, with the reads of their slots.
#pragma once

#include "../problem/map_elements.hpp"
#include "../problem/problem_state.hpp"
#include "../problem/traced_path.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::detail {

inline constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};

/// The read of a slot in each element: entry base + width * indices[column], or base if there is no
/// column.
struct SlotRead {
  std::uint32_t column = kNoColumn;
  std::uint32_t base = 0;
  std::uint32_t width = 0;

  std::uint32_t entry(const MapElements& elements, std::size_t element) const {
    return column == kNoColumn ? base : base + width * elements.index(element, column);
  }
};

/// The read of a data slot: an entry of the problem's data, the element's number, or one number.
struct DataRead {
  enum class Kind { Entry, Own, Number } kind = Kind::Number;
  SlotRead entry = {};
  double number = 0;
};

/// Elements whose rows are instances of one topology.
struct Part {
  ir::Canonical canonical;
  std::vector<SlotRead> indices;  ///< parameter slots, then uniform slots
  std::vector<DataRead> data;
  bool from_arrays = false;  ///< true if some data are entries
};

/// The part of an element that took this path. Throws what extract() throws.
Part make_part(const MapElements& elements, std::size_t element, const TracedPath& path,
               const Caller& caller);

/// Properties that all instances appended by a map share.
struct Appended {
  BlockKind kind = BlockKind::residual;
  std::uint32_t label = 0;  ///< number in ProblemState::labels
  std::uint32_t loss = 0;   ///< entry in ProblemState::losses
};

/// Appends the elements as instances of their parts' topologies. The order is that of the elements,
/// for any number of threads. Returns the first id.
///
///   part_of  for each element
///   ids      if not null, receives the id of each element's instance
std::uint64_t append_elements(ProblemState& state, const MapElements& elements,
                              std::span<const Part> parts, std::span<const std::uint32_t> part_of,
                              const Appended& what, std::vector<std::uint64_t>* ids);

}  // namespace topograd::detail
