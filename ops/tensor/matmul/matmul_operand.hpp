// Internal: one of A and B as kernels of products read it.
#pragma once

#include <string_view>

namespace topograd::ops::detail {

struct MatmulOperand {
  std::string_view name;    ///< of the buffer
  std::string_view length;  ///< push constant: how long the operand is beside the depth
  std::string_view origin;  ///< variable: where the tile begins
  bool deep_lines;          ///< consecutive elements in memory follow the depth

  static MatmulOperand a(bool transposed) { return {"a", "rows", "row0", !transposed}; }
  static MatmulOperand b(bool transposed) { return {"b", "columns", "column0", transposed}; }
};

}  // namespace topograd::ops::detail
