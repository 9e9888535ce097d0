// Internal: the operand A or B in kernels of matrix products.
#pragma once

#include <string_view>

namespace topograd::ops::detail {

struct MatmulOperand {
  std::string_view name;    ///< name of the buffer
  std::string_view length;  ///< push constant: size of the operand besides the depth
  std::string_view origin;  ///< variable: beginning of the tile
  bool deep_lines;          ///< true if consecutive elements in memory follow the depth

  static MatmulOperand a(bool transposed) { return {"a", "rows", "row0", !transposed}; }
  static MatmulOperand b(bool transposed) { return {"b", "columns", "column0", transposed}; }
};

}  // namespace topograd::ops::detail
