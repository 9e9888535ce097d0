// Names of the enumerators of the Ceres-compatible interface.
#include "types.hpp"

#include <cctype>
#include <string_view>
#include <utility>

namespace ceres {
namespace {

struct Name {
  int value;
  const char* text;
};

template <std::size_t N>
const char* find(const Name (&names)[N], int value) {
  for (const Name& name : names)
    if (name.value == value) return name.text;
  return "UNKNOWN";
}

template <std::size_t N, class Enumeration>
bool find(const Name (&names)[N], std::string& text, Enumeration* type) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Name& name : names) {
    if (text != name.text) continue;
    *type = static_cast<Enumeration>(name.value);
    return true;
  }
  return false;
}

#define TG_NAME(enumerator) \
  { enumerator, #enumerator }

}  // namespace

#define TG_NAMES(Enumeration, ...)                                                           \
  namespace {                                                                                \
  constexpr Name k##Enumeration[] = {__VA_ARGS__};                                           \
  }                                                                                          \
  const char* Enumeration##ToString(Enumeration type) { return find(k##Enumeration, type); } \
  bool StringTo##Enumeration(std::string value, Enumeration* type) {                         \
    return find(k##Enumeration, value, type);                                                \
  }

TG_NAMES(LinearSolverType, TG_NAME(DENSE_NORMAL_CHOLESKY), TG_NAME(DENSE_QR),
         TG_NAME(SPARSE_NORMAL_CHOLESKY), TG_NAME(DENSE_SCHUR), TG_NAME(SPARSE_SCHUR),
         TG_NAME(ITERATIVE_SCHUR), TG_NAME(CGNR))
TG_NAMES(PreconditionerType, TG_NAME(IDENTITY), TG_NAME(JACOBI), TG_NAME(SCHUR_JACOBI),
         TG_NAME(SCHUR_POWER_SERIES_EXPANSION), TG_NAME(CLUSTER_JACOBI),
         TG_NAME(CLUSTER_TRIDIAGONAL), TG_NAME(SUBSET))
TG_NAMES(VisibilityClusteringType, TG_NAME(CANONICAL_VIEWS), TG_NAME(SINGLE_LINKAGE))
TG_NAMES(SparseLinearAlgebraLibraryType, TG_NAME(SUITE_SPARSE), TG_NAME(EIGEN_SPARSE),
         TG_NAME(ACCELERATE_SPARSE), TG_NAME(CUDA_SPARSE), TG_NAME(CX_SPARSE), TG_NAME(NO_SPARSE))
TG_NAMES(LinearSolverOrderingType, TG_NAME(AMD), TG_NAME(NESDIS))
TG_NAMES(DenseLinearAlgebraLibraryType, TG_NAME(EIGEN), TG_NAME(LAPACK), TG_NAME(CUDA))
TG_NAMES(TrustRegionStrategyType, TG_NAME(LEVENBERG_MARQUARDT), TG_NAME(DOGLEG))
TG_NAMES(DoglegType, TG_NAME(TRADITIONAL_DOGLEG), TG_NAME(SUBSPACE_DOGLEG))
TG_NAMES(MinimizerType, TG_NAME(LINE_SEARCH), TG_NAME(TRUST_REGION))
TG_NAMES(LineSearchDirectionType, TG_NAME(STEEPEST_DESCENT), TG_NAME(NONLINEAR_CONJUGATE_GRADIENT),
         TG_NAME(LBFGS), TG_NAME(BFGS))
TG_NAMES(LineSearchType, TG_NAME(ARMIJO), TG_NAME(WOLFE))
TG_NAMES(LineSearchInterpolationType, TG_NAME(BISECTION), TG_NAME(QUADRATIC), TG_NAME(CUBIC))
TG_NAMES(NonlinearConjugateGradientType, TG_NAME(FLETCHER_REEVES), TG_NAME(POLAK_RIBIERE),
         TG_NAME(HESTENES_STIEFEL))
TG_NAMES(CovarianceAlgorithmType, TG_NAME(DENSE_SVD), TG_NAME(SPARSE_QR))
TG_NAMES(NumericDiffMethodType, TG_NAME(CENTRAL), TG_NAME(FORWARD), TG_NAME(RIDDERS))
TG_NAMES(LoggingType, TG_NAME(SILENT), TG_NAME(PER_MINIMIZER_ITERATION))
TG_NAMES(DumpFormatType, TG_NAME(CONSOLE), TG_NAME(TEXTFILE))

bool StringtoNumericDiffMethodType(std::string value, NumericDiffMethodType* type) {
  return StringToNumericDiffMethodType(std::move(value), type);
}
bool StringtoLoggingType(std::string value, LoggingType* type) {
  return StringToLoggingType(std::move(value), type);
}
bool StringtoDumpFormatType(std::string value, DumpFormatType* type) {
  return StringToDumpFormatType(std::move(value), type);
}

const char* TerminationTypeToString(TerminationType type) {
  static constexpr Name kNames[] = {TG_NAME(CONVERGENCE), TG_NAME(NO_CONVERGENCE), TG_NAME(FAILURE),
                                    TG_NAME(USER_SUCCESS), TG_NAME(USER_FAILURE)};
  return find(kNames, type);
}

bool IsSchurType(LinearSolverType type) {
  return type == DENSE_SCHUR || type == SPARSE_SCHUR || type == ITERATIVE_SCHUR;
}

bool IsSparseLinearAlgebraLibraryTypeAvailable(SparseLinearAlgebraLibraryType type) {
  return type != NO_SPARSE;
}
bool IsDenseLinearAlgebraLibraryTypeAvailable(DenseLinearAlgebraLibraryType) { return true; }

}  // namespace ceres
