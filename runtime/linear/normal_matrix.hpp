// The matrix of the normal equations, JᵀJ: multiplied by as it is, or never made.
#pragma once

#include <cstdint>
#include <string>

namespace topograd::runtime {

/// How conjugate gradients multiply by JᵀJ. `matrix_free`: by the kernels of the residuals, or from
/// a stored Jacobian. `assembled`: its blocks are summed at every linearisation, in a pattern that
/// is found once from the index columns, and the product reads them. `automatic`: the second where
/// kernels run on a device, a stored Jacobian would serve, and the blocks take at most half of the
/// bytes that a product from it reads.
enum class NormalMatrix { automatic, matrix_free, assembled };

/// What an engine did.
struct NormalMatrixUse {
  bool assembled = false;
  std::uint64_t blocks = 0;  ///< that are not zero, of both triangles
  std::uint64_t bytes = 0;   ///< their numbers and positions
  std::string why;           ///< one line
};

}  // namespace topograd::runtime
