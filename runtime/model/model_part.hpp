// Parts of a model, for engines that hold one each.
#pragma once

#include "chunks.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Connects the engines of all parts of one model. Each of them makes the same calls in the same
/// order; a call returns when all have made it.
class PartLink {
 public:
  virtual ~PartLink() = default;
  /// Replaces the numbers of ghosts by those of the parts that own them.
  ///
  ///   v  by scalar of this part
  virtual void fill_ghosts(std::span<float> v) = 0;
  virtual void fill_ghosts(std::span<double> v) = 0;
  // The same for vectors of which the caller has only the numbers at borders.
  /// Own scalars that are ghosts of other parts, and the own ghosts; both ascend.
  virtual std::span<const std::uint32_t> borders() const = 0;
  virtual std::span<const std::uint32_t> ghosts() const = 0;
  virtual void exchange(std::span<const double> borders, std::span<double> ghosts) = 0;
  /// Exchanges numbers of chunks. Returns those of all chunks of the model, in the same layout;
  /// they are the same for all parts and valid until the next call.
  ///
  ///   own    `width` columns, each with a number for each own chunk
  virtual std::span<const double> all_chunks(std::span<const double> own, std::size_t width) = 0;
};

/// The part of a model that an engine holds. The engine's model has the blocks of the part's own
/// chunks and its ghosts: the other blocks that its residuals read. It has all residuals that read
/// an own block, in the order of the whole model, so sums by own unknown need no exchange. Sums by
/// ghost are incomplete, and nobody reads them.
struct ModelPart {
  /// The own chunks, in the numbers of the part's model. A residual counts in scalar sums where the
  /// chunk of its first parameter slot is an own one.
  std::vector<Chunk> chunks;
  /// True if this part has the residuals without parameters.
  bool first = false;
  bool has_energies = false;  ///< the whole model has
  /// True if some parts are on devices and others on CPUs: then engines of both kinds exchange the
  /// same numbers in the same order. Set before the first exchange.
  bool mixed = false;
  PartLink* link = nullptr;
};

}  // namespace topograd::runtime
