// Removal of negative eigenvalues from symmetric matrices.
#pragma once

#include "dense.hpp"

namespace topograd::runtime {

/// Replaces the negative eigenvalues of a packed matrix (its upper triangle, row by row) by 0. A
/// matrix without any keeps its bits; one that is not finite stays as it is.
///
///   packed  n (n + 1) / 2 numbers    eigen  reused memory
void remove_negative_part(Eigen::Index n, double* packed, SymmetricEigen& eigen);

}  // namespace topograd::runtime
