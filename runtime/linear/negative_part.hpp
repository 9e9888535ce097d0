// Symmetric matrices without their negative eigenvalues.
#pragma once

#include <Eigen/Eigenvalues>

namespace topograd::runtime {

/// Takes the part of negative eigenvalues out of a packed matrix (its upper triangle, row by row);
/// one without keeps its bits, one that is not finite stays as it is.
///
///   packed  n (n + 1) / 2 numbers    solver  its memory serves the next matrix, too
void remove_negative_part(Eigen::Index n, double* packed,
                          Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>& solver);

}  // namespace topograd::runtime
