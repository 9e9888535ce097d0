// A model, the input of an engine: arrays of unknowns, terms with their batches, manifolds. Also
// how it is divided: into chunks of parameter blocks, and into parts that several engines solve
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../ir/batch/batch.hpp"
#include "../../ir/program.hpp"
#include "../../ir/topology/topology.hpp"
#include "../rows/rows.hpp"

namespace topograd::runtime {

/// Blocks of `width` neighbouring scalars of x, from scalar `offset` on.
struct ParameterArray {
  std::uint64_t offset = 0;
  std::uint32_t width = 1;
  std::uint64_t blocks = 0;
};

/// All instances of one topology. Pointers outlive the engine that is made from them.
struct Term {
  const ir::Topology* topology = nullptr;
  const ir::Batch* batch = nullptr;
  std::string name;  ///< label of its residuals or energies, or "residual<k>", "energy<k>"
  bool energy =
      /// True if its one output is added to the objective as it is, not as half its square.
      false;
  /// ρ of its blocks, whose cost is ½ ρ(Σ r²): parameter 0 is Σ r², its uniforms are the last ones
  /// of the topology (autodiff/derivatives.hpp). Null: ρ(s) = s.
  const ir::Program* loss = nullptr;
};

/// A problem. Index columns of parameters are positions in x, of uniforms positions in `uniforms`.
struct Model {
  std::vector<ParameterArray> arrays;  ///< cover 0 .. scalars without gaps, ascending
  std::uint64_t scalars = 0;           ///< length of x
  std::uint64_t rows = 0;              ///< scalar residuals; energies have none
  std::vector<Term> terms;
  std::vector<double> uniforms;
  std::vector<std::uint8_t> constant;  ///< by scalar: 1 = fixed; empty = none
  std::vector<double> lower, upper;    ///< by scalar: the box of damped steps; both empty = none
  /// Blocks on manifolds; null: none.
  std::shared_ptr<const struct Manifolds> manifolds;
  std::uint64_t revision = 0;  ///< raised when terms or instances change during a solve
};

/// Blocks of one array on one manifold.
///
/// Vectors of damped steps keep a block's tangent coordinates in the first scalars of the block;
/// the scalars after them are 0. So a step has as many numbers as x, and kernels need not know
/// manifolds.
struct ManifoldBlocks {
  std::uint32_t width = 0;    ///< numbers of a block
  std::uint32_t tangent = 0;  ///< coordinates of a step, 1 .. width
  /// x ⊞ δ: parameter k is x_k, tangent k < `tangent` is δ_k. Outputs: width.
  ir::Program plus;
  /// P = ∂(x ⊞ δ)/∂δ at δ = 0 from x, a square matrix row by row whose columns from `tangent` on
  /// are 0. Outputs: width².
  ir::Program basis;
  std::vector<std::uint32_t> blocks;  ///< first scalars in x, ascending

  friend bool operator==(const ManifoldBlocks&, const ManifoldBlocks&) = default;
};

struct Manifolds {
  std::vector<ManifoldBlocks> all;
  friend bool operator==(const Manifolds&, const Manifolds&) = default;
};

/// Consecutive parameter blocks of one array, numbered through all arrays.
struct Chunk {
  std::uint32_t first_block = 0, end_block = 0;
  std::uint64_t first = 0, end = 0;  ///< scalars in x
};

/// Most chunks of a model with fewer arrays than that. More chunks divide better among many ranks,
/// and make every scalar sum longer.
constexpr std::uint64_t kMostChunks = 4096;

/// Blocks of one chunk of an array: the least power of two that has at least 16 scalars and gives
/// each of the model's arrays its share of kMostChunks. Few large blocks, such as cameras, are cut
/// finer than many small ones, since as many residuals read them.
std::uint32_t blocks_per_chunk(const ParameterArray& array, std::size_t arrays);

/// Cuts each array into chunks, ascending. They depend on the arrays alone.
std::vector<Chunk> chunks_of(std::span<const ParameterArray> arrays);

/// The chunk of a block. The chunks ascend; returns their number if none has the block.
std::size_t find_chunk(std::span<const Chunk> chunks, std::uint32_t block);

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

/// Leaf values of a term's programs in the instances [first, first + count).
///
///   x  model.scalars numbers
Rows rows_of(const Model& model, const Term& term, std::span<const double> x, std::size_t first,
             std::size_t count);

/// Numbers of the blocks of some arrays, which must outlive it.
class BlockNumbers {
 public:
  explicit BlockNumbers(std::span<const ParameterArray> arrays) : arrays_(arrays) {
    for (const ParameterArray& a : arrays) {
      first_.push_back(count_);
      count_ += static_cast<std::uint32_t>(a.blocks);
    }
  }
  std::uint32_t count() const { return count_; }
  std::uint32_t first(std::size_t array) const { return first_[array]; }
  std::size_t array_of_scalar(std::uint32_t scalar) const {
    std::size_t array = arrays_.size() - 1;
    while (arrays_[array].offset > scalar) --array;
    return array;
  }
  /// The block of a scalar of that array.
  std::uint32_t of(std::size_t array, std::uint32_t scalar) const {
    const ParameterArray& a = arrays_[array];
    return first_[array] + (scalar - static_cast<std::uint32_t>(a.offset)) / a.width;
  }
  std::uint32_t at(std::uint32_t scalar) const { return of(array_of_scalar(scalar), scalar); }

 private:
  std::span<const ParameterArray> arrays_;
  std::vector<std::uint32_t> first_;
  std::uint32_t count_ = 0;
};

}  // namespace topograd::runtime
