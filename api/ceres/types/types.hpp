// Enumerations of the Ceres-compatible interface and their names, its macros, version, constants.
#pragma once

#include <numbers>
#include <string>

#include "../../../ir/language.hpp"

#define CERES_EXPORT
#define CERES_NO_EXPORT
#define CERES_DEPRECATED_WITH_MSG(message) [[deprecated(message)]]
/// Placed between a name and its arguments, prevents the expansion of a macro of that name.
#define CERES_PREVENT_MACRO_SUBSTITUTION
// Around uses of deprecated names.
#define CERES_DISABLE_DEPRECATED_WARNING \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
#define CERES_RESTORE_DEPRECATED_WARNING _Pragma("GCC diagnostic pop")
/// The value of a command-line flag of gflags.
#ifndef CERES_GET_FLAG
#define CERES_GET_FLAG(X) X
#endif

#define CERES_VERSION_MAJOR 2
#define CERES_VERSION_MINOR 2
#define CERES_VERSION_REVISION 0
#define CERES_VERSION_STRING "2.2.0-topograd"

namespace ceres::constants {

inline constexpr double pi = std::numbers::pi;

}  // namespace ceres::constants

namespace ceres {

enum Ownership { DO_NOT_TAKE_OWNERSHIP, TAKE_OWNERSHIP };

enum LinearSolverType {
  DENSE_NORMAL_CHOLESKY,
  DENSE_QR,
  SPARSE_NORMAL_CHOLESKY,
  DENSE_SCHUR,
  SPARSE_SCHUR,
  ITERATIVE_SCHUR,
  CGNR
};

enum PreconditionerType {
  IDENTITY,
  JACOBI,
  SCHUR_JACOBI,
  SCHUR_POWER_SERIES_EXPANSION,
  CLUSTER_JACOBI,
  CLUSTER_TRIDIAGONAL,
  SUBSET
};

enum VisibilityClusteringType { CANONICAL_VIEWS, SINGLE_LINKAGE };

enum SparseLinearAlgebraLibraryType {
  SUITE_SPARSE,
  EIGEN_SPARSE,
  ACCELERATE_SPARSE,
  CUDA_SPARSE,
  CX_SPARSE,
  NO_SPARSE
};

enum LinearSolverOrderingType { AMD, NESDIS };
enum DenseLinearAlgebraLibraryType { EIGEN, LAPACK, CUDA };
enum LoggingType { SILENT, PER_MINIMIZER_ITERATION };
enum MinimizerType { LINE_SEARCH, TRUST_REGION };
enum LineSearchDirectionType { STEEPEST_DESCENT, NONLINEAR_CONJUGATE_GRADIENT, LBFGS, BFGS };
enum NonlinearConjugateGradientType { FLETCHER_REEVES, POLAK_RIBIERE, HESTENES_STIEFEL };
enum LineSearchType { ARMIJO, WOLFE };
enum LineSearchInterpolationType { BISECTION, QUADRATIC, CUBIC };
enum TrustRegionStrategyType { LEVENBERG_MARQUARDT, DOGLEG };
enum DoglegType { TRADITIONAL_DOGLEG, SUBSPACE_DOGLEG };
enum TerminationType { CONVERGENCE, NO_CONVERGENCE, FAILURE, USER_SUCCESS, USER_FAILURE };
enum CallbackReturnType { SOLVER_CONTINUE, SOLVER_ABORT, SOLVER_TERMINATE_SUCCESSFULLY };
enum DumpFormatType { CONSOLE, TEXTFILE };
/// A number of residuals or a block size that is given to the constructor.
enum DimensionType { DYNAMIC = -1 };
enum NumericDiffMethodType { CENTRAL, FORWARD, RIDDERS };
enum CovarianceAlgorithmType { DENSE_SVD, SPARSE_QR };

/// Marks outputs that a user's function has not written.
inline constexpr double kImpossibleValue = 1e302;

// The name of an enumerator ("UNKNOWN" for an invalid number), and the enumerator of a name in
// upper or lower case (returns false and leaves *type unchanged for an unknown name).
#define TG_CERES_NAMES(Enumeration)                    \
  const char* Enumeration##ToString(Enumeration type); \
  bool StringTo##Enumeration(std::string value, Enumeration* type)
TG_CERES_NAMES(LinearSolverType);
TG_CERES_NAMES(PreconditionerType);
TG_CERES_NAMES(VisibilityClusteringType);
TG_CERES_NAMES(SparseLinearAlgebraLibraryType);
TG_CERES_NAMES(LinearSolverOrderingType);
TG_CERES_NAMES(DenseLinearAlgebraLibraryType);
TG_CERES_NAMES(TrustRegionStrategyType);
TG_CERES_NAMES(DoglegType);
TG_CERES_NAMES(MinimizerType);
TG_CERES_NAMES(LineSearchDirectionType);
TG_CERES_NAMES(LineSearchType);
TG_CERES_NAMES(LineSearchInterpolationType);
TG_CERES_NAMES(NonlinearConjugateGradientType);
TG_CERES_NAMES(CovarianceAlgorithmType);
TG_CERES_NAMES(NumericDiffMethodType);
TG_CERES_NAMES(LoggingType);
TG_CERES_NAMES(DumpFormatType);
#undef TG_CERES_NAMES
bool StringtoNumericDiffMethodType(std::string value, NumericDiffMethodType* type);
bool StringtoLoggingType(std::string value, LoggingType* type);
bool StringtoDumpFormatType(std::string value, DumpFormatType* type);
const char* TerminationTypeToString(TerminationType type);

bool IsSchurType(LinearSolverType type);
/// True if a direct sparse solver of that name is accepted; all names select the library's own.
bool IsSparseLinearAlgebraLibraryTypeAvailable(SparseLinearAlgebraLibraryType type);
bool IsDenseLinearAlgebraLibraryTypeAvailable(DenseLinearAlgebraLibraryType type);

}  // namespace ceres
