// CRSMatrix: a sparse matrix in compressed row form.
#pragma once

#include <vector>

namespace ceres {

/// Row r has entries rows[r] .. rows[r + 1] - 1 of `cols` and `values`, columns ascending.
struct CRSMatrix {
  int num_rows = 0;
  int num_cols = 0;
  std::vector<int> cols;
  std::vector<int> rows;  ///< num_rows + 1 positions
  std::vector<double> values;
};

}  // namespace ceres
