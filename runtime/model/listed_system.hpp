// JᵀJ of stored Jacobians as lists of what is added up, for a device that takes sums in the order
// in which the CPU takes them.
#pragma once

#include "../../ir/program.hpp"
#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime {

/// A range of entries, or of segments of them, that is added up for the scalars of a block, which
/// begin at `target`.
struct ListedItem {
  std::uint32_t target = 0, begin = 0, end = 0;
};

/// Lists of the blocks of one width.
struct ListedWidth {
  std::uint32_t width = 1;
  std::vector<ListedItem> lists;     ///< targets are scalars
  std::vector<ListedItem> segments;  ///< of longer lists; the target of segment s is s * width
  std::vector<ListedItem> long_lists;
};

/// A number of an instance is in a column, or in a row of J·p.
inline constexpr std::uint32_t kListedRow = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kNoListedColumn = ~std::uint32_t{0};

/// scale * left * right of an instance; 0 where right is 0.
struct ListedProduct {
  std::uint32_t left = 0, right = kNoListedColumn;
  double scale = 1;
};

/// A batch of residuals. Its columns have the data first, then what is stored.
struct ListedTerm {
  std::size_t instances = 0;
  ir::Program rows;  ///< J·p from p, as parameters, and from the columns, as data
  std::vector<std::vector<std::uint32_t>> scalars;  ///< by parameter slot, then by instance
  std::vector<std::vector<double>> data;            ///< columns that do not change
  std::size_t stored = 0;                           ///< columns that do

  /// An entry is instance << slot_bits | block slot.
  std::uint32_t slot_bits = 0;
  std::span<const std::uint32_t> entries;
  std::vector<ListedWidth> widths;
  /// The products for coordinate c of the blocks of block slot r are products[k], with k from
  /// starts[slots[r] + c] to starts[slots[r] + c + 1].
  std::vector<std::uint32_t> slots, starts;
  std::vector<ListedProduct> products;
};

struct ListedSystem {
  std::uint64_t scalars = 0;
  std::vector<Chunk> chunks;  ///< ranges of inner products, added up one number after the other
  /// Blocks of one width, and their packed inverses. A number stands for each scalar where width
  /// is 1.
  struct Blocks {
    std::uint64_t first = 0, packed = 0, count = 0;
    std::uint32_t width = 1;
  };
  std::vector<Blocks> blocks;
  std::vector<ListedTerm> terms;
};

/// Vectors on aggregates (coarse_plan.hpp).
struct ListedCoarse {
  std::uint32_t functions = 0;
  std::span<const std::uint32_t> starts, scalars, homes;  ///< as CoarsePlan has them
  std::span<const double> vectors;                        ///< by vector, then by entry
};

/// Sweeps of conjugate gradients on a device, for A x = b with A = JᵀJ + damping. Every sum has the
/// order of the CPU's.
class ListedSolver {
 public:
  virtual ~ListedSolver() = default;
  /// Takes another system. Returns false if it does not fit the device, or is better solved
  /// elsewhere. Throws Error{Unsupported} if a driver refuses a kernel, Error{OutOfDeviceMemory}.
  virtual bool follow(const ListedSystem& system) = 0;
  /// Sets stored column `column` of a term.
  virtual void set_column(std::size_t term, std::size_t column, std::span<const double> values) = 0;
  ///   held  by scalar: 1 = its equation is left out; empty: none is
  virtual void set_damping(std::span<const double> damping, std::span<const std::uint8_t> held) = 0;
  virtual void set_coarse(const std::optional<ListedCoarse>& coarse) = 0;
  /// Returns Pᵀ A P y for the vectors P of the coarse space.
  virtual std::span<const double> coarse_product(std::span<const double> y) = 0;
  /// Begins a solve.
  ///
  ///   inverse  packed inverses of the blocks
  virtual void begin(std::span<const double> right_side, std::span<const double> inverse) = 0;

  /// Sums by chunk, and vectors of the coarse space · r.
  struct Residual {
    std::span<const double> rr, rz, restricted;
  };
  /// x += alpha p, r −= alpha q, or x = 0 without alpha; z = blocks⁻¹ r.
  virtual Residual update(std::optional<double> alpha) = 0;
  /// z += the coarse vectors times `coarse`; p = z + beta p, or z without beta; q = A p. Returns
  /// p·q by chunk.
  virtual std::span<const double> product(std::optional<double> beta,
                                          std::span<const double> coarse) = 0;
  virtual void solution(std::span<double> x) = 0;
};

}  // namespace topograd::runtime
