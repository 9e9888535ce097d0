// The matrix of the normal equations, JᵀJ: matrix-free or assembled.
#pragma once

#include <cstdint>
#include <string>

namespace topograd::runtime {

/// How conjugate gradients multiply by JᵀJ. `matrix_free`: with the kernels of the residuals, or
/// from a stored Jacobian. `assembled`: the blocks are summed at every linearisation, in a pattern
/// found once from the index columns, and the product reads them. `automatic`: `assembled` if
/// kernels run on a device, a stored Jacobian would be used, and the blocks take at most half of
/// the bytes that a product from it reads.
enum class NormalMatrix { automatic, matrix_free, assembled };

/// The method that an engine used.
struct NormalMatrixUse {
  bool assembled = false;
  std::uint64_t blocks = 0;  ///< nonzero blocks of both triangles
  std::uint64_t bytes = 0;   ///< their numbers and positions
  std::string why;           ///< one line
};

}  // namespace topograd::runtime
