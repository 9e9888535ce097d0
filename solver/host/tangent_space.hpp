// The coordinates that a problem's unknowns really have: free scalars and tangents of manifolds.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../runtime/engine/column_scaling.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// A coordinate for every free scalar of x and for every tangent of a block on a manifold, in the
/// order of x; blocks and scalars that are held constant have none. Steps are kept within bounds.
///
/// The problem outlives it; flags, bounds and manifolds are those at its making.
class TangentSpace {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// A block on a manifold.
  struct Block {
    std::uint32_t offset = 0;  ///< in x
    std::uint32_t width = 0, tangent = 0;
    std::uint32_t column = 0;  ///< its first coordinate
    std::size_t basis = 0;     ///< where its entries of basis() begin
    const Manifold* manifold = nullptr;
    std::uint32_t array = 0, block = 0;  ///< for messages
  };

  /// Throws Error{Unsupported} if single coordinates of a block on a manifold are constant.
  explicit TangentSpace(const Problem& problem);

  std::size_t size() const { return size_; }  ///< coordinates
  std::size_t scalars() const { return at_.size(); }
  std::span<const Block> blocks() const { return blocks_; }
  /// The block on a manifold that a scalar belongs to, or null.
  const Block* block_of(std::uint32_t scalar) const {
    return in_block_.empty() || in_block_[scalar] == kNone ? nullptr : &blocks_[in_block_[scalar]];
  }
  /// First coordinate of a scalar (of its block, if that is on a manifold), or kNone.
  std::uint32_t column(std::uint32_t scalar) const { return at_[scalar]; }
  bool bounded() const { return !lower_.empty() || !upper_.empty(); }

  /// out = x ⊞ δ within the bounds; false if a manifold refuses. Constant scalars are copied.
  bool plus(std::span<const double> x, std::span<const double> delta, std::span<double> out) const;
  /// Bases of the tangent spaces at x: for each of blocks() a (width, tangent) matrix, row by row.
  /// False if a manifold refuses.
  bool basis(std::span<const double> x, std::vector<double>& values) const;
  /// Σ (‖∂r/∂x_k‖ x_k)² over the scalars that move, along tangents (squares_along_tangents()).
  ///
  ///   square(c)  of the norm of the column of coordinate c
  template <class Square>
  double scaled_square(std::span<const double> x, std::span<const double> basis,
                       const Square& square) const {
    double sum = 0;
    for (std::uint32_t k = 0; k < x.size(); ++k)
      if (at_[k] != kNone && block_of(k) == nullptr) sum += square(at_[k]) * x[k] * x[k];
    for (const Block& block : blocks_) {
      if (at_[block.offset] == kNone) continue;
      sum += runtime::squares_along_tangents(
          &x[block.offset], block.width, block.tangent,
          [&](std::uint32_t t) { return square(block.column + t); },
          [&](std::uint32_t k, std::uint32_t t) {
            return basis[block.basis + k * block.tangent + t];
          });
    }
    return sum;
  }
  /// out = Pᵀ g: a gradient by scalars in the coordinates.
  void project(std::span<const double> basis, std::span<const double> gradient,
               std::span<double> out) const;

  /// Numbers by scalar, equal on each block on a manifold, by coordinate.
  std::vector<double> by_coordinate(std::span<const double> by_scalar) const;

  /// True if a coordinate of a scalar lies on a bound that −g points out of; such coordinates stay.
  ///
  ///   gradient  in the coordinates
  bool is_active(std::uint32_t scalar, std::span<const double> x,
                 std::span<const double> gradient) const {
    const std::uint32_t k = at_[scalar];
    if (k == kNone || block_of(scalar) != nullptr) return false;
    return (!lower_.empty() && x[scalar] <= lower_[scalar] && gradient[k] > 0) ||
           (!upper_.empty() && x[scalar] >= upper_[scalar] && gradient[k] < 0);
  }

  /// Throws Error{InvalidArgument} that names the first bound that nothing can meet, or the first
  /// start value outside its bounds; `call` begins the message.
  void check_bounds(const char* call, std::span<const double> x) const;

 private:
  void add_block(const Problem& problem, std::size_t array, std::uint32_t block);

  std::vector<std::uint32_t> at_;        // by scalar
  std::vector<std::uint32_t> in_block_;  // by scalar; empty without manifolds
  std::vector<Block> blocks_;
  std::vector<ParameterArray> arrays_;
  std::vector<double> lower_, upper_;
  std::vector<std::uint8_t> constant_;
  std::size_t size_ = 0, basis_size_ = 0;
};

}  // namespace topograd
