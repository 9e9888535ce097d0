// The matrix of the normal equations, JᵀJ: matrix-free or assembled.
#pragma once

#include "../../ir/enum_table.hpp"
#include "why.hpp"

#include <cstdint>
#include <optional>

namespace topograd::runtime {

/// How conjugate gradients multiply by JᵀJ.
enum class NormalMatrix {
#define TG_NORMAL_MATRIX(row, ...) row,
#include "matrix_reasons.def"
};
inline constexpr EnumRow<NormalMatrix> kNormalMatrices[] = {
#define TG_NORMAL_MATRIX(row, ...) {.value = NormalMatrix::row, .name = #row, __VA_ARGS__},
#include "matrix_reasons.def"
};
TG_ENUM_TABLE(NormalMatrix, kNormalMatrices)

enum class MatrixReason {
#define TG_MATRIX_REASON(reason, sentence) reason,
#include "matrix_reasons.def"
};

/// The method that an engine used.
struct NormalMatrixUse {
  bool assembled = false;
  std::uint64_t blocks = 0;  ///< nonzero blocks of both triangles
  std::uint64_t bytes = 0;   ///< their numbers and positions
  Why<MatrixReason> why = {};
};

/// Facts that a device has about products with JᵀJ.
struct ProductFacts {
  bool strategy_asked_for = false;  ///< an accumulation strategy is: products are evaluated by it
  bool jacobian_fits = true;        ///< the range of a storage buffer
  std::uint64_t operations = 0;     ///< of a product, for the residual that takes most
  std::uint64_t stored_bytes = 0;   ///< that a product from a stored Jacobian reads
  /// The matrix by blocks; expensive: decide_product() asks for it.
  struct Blocks {
    Why<MatrixReason> obstacle;  ///< MatrixReason::none: possible
    std::uint64_t blocks = 0, bytes = 0;
  };
  std::optional<Blocks> blocks;
};

struct ProductChoice {
  enum class Source { evaluation, stored_jacobian, blocks };
  bool asks_for_blocks = false;  ///< ProductFacts::blocks has to be known first
  /// Bytes of blocks that would not be used if there were more.
  std::uint64_t most_bytes = ~std::uint64_t{0};
  Source source = Source::evaluation;
  Why<MatrixReason> why;  ///< for or against blocks
};

/// Decides how products with JᵀJ are made on a device, from facts alone.
ProductChoice decide_product(NormalMatrix asked, const ProductFacts& facts);

}  // namespace topograd::runtime
