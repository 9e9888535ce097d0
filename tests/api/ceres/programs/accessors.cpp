// A program asks a problem, a gradient problem and the names of options for all that they tell.
#include <cctype>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ceres/ceres.h"

namespace {

// Prints the name of each value, and whether the name, in either case, gives the value back.
#define SHOW(Enumeration, reader, ...)                                       \
  for (const ceres::Enumeration value : {__VA_ARGS__}) {                     \
    ceres::Enumeration found = static_cast<ceres::Enumeration>(-1);          \
    const std::string name = ceres::Enumeration##ToString(value);            \
    const bool upper = ceres::reader(name, &found) && found == value;        \
    std::string lower;                                                       \
    for (const char c : name) lower += static_cast<char>(std::tolower(c));   \
    found = static_cast<ceres::Enumeration>(-1);                             \
    const bool same = ceres::reader(lower, &found) && found == value;        \
    std::printf("%s %s %d\n", #Enumeration, name.c_str(), upper + 2 * same); \
  }

void ShowNames() {
  SHOW(LinearSolverType, StringToLinearSolverType, ceres::DENSE_NORMAL_CHOLESKY, ceres::DENSE_QR,
       ceres::SPARSE_NORMAL_CHOLESKY, ceres::DENSE_SCHUR, ceres::SPARSE_SCHUR,
       ceres::ITERATIVE_SCHUR, ceres::CGNR)
  SHOW(PreconditionerType, StringToPreconditionerType, ceres::IDENTITY, ceres::JACOBI,
       ceres::SCHUR_JACOBI, ceres::CLUSTER_JACOBI, ceres::CLUSTER_TRIDIAGONAL, ceres::SUBSET)
  SHOW(VisibilityClusteringType, StringToVisibilityClusteringType, ceres::CANONICAL_VIEWS,
       ceres::SINGLE_LINKAGE)
  SHOW(DenseLinearAlgebraLibraryType, StringToDenseLinearAlgebraLibraryType, ceres::EIGEN,
       ceres::LAPACK, ceres::CUDA)
  SHOW(TrustRegionStrategyType, StringToTrustRegionStrategyType, ceres::LEVENBERG_MARQUARDT,
       ceres::DOGLEG)
  SHOW(DoglegType, StringToDoglegType, ceres::TRADITIONAL_DOGLEG, ceres::SUBSPACE_DOGLEG)
  SHOW(MinimizerType, StringToMinimizerType, ceres::LINE_SEARCH, ceres::TRUST_REGION)
  SHOW(LineSearchDirectionType, StringToLineSearchDirectionType, ceres::STEEPEST_DESCENT,
       ceres::NONLINEAR_CONJUGATE_GRADIENT, ceres::LBFGS, ceres::BFGS)
  SHOW(LineSearchType, StringToLineSearchType, ceres::ARMIJO, ceres::WOLFE)
  SHOW(LineSearchInterpolationType, StringToLineSearchInterpolationType, ceres::BISECTION,
       ceres::QUADRATIC, ceres::CUBIC)
  SHOW(NonlinearConjugateGradientType, StringToNonlinearConjugateGradientType,
       ceres::FLETCHER_REEVES, ceres::POLAK_RIBIERE, ceres::HESTENES_STIEFEL)
  SHOW(CovarianceAlgorithmType, StringToCovarianceAlgorithmType, ceres::DENSE_SVD, ceres::SPARSE_QR)
  SHOW(NumericDiffMethodType, StringToNumericDiffMethodType, ceres::CENTRAL, ceres::FORWARD,
       ceres::RIDDERS)
  SHOW(LoggingType, StringtoLoggingType, ceres::SILENT, ceres::PER_MINIMIZER_ITERATION)
  SHOW(DumpFormatType, StringtoDumpFormatType, ceres::CONSOLE, ceres::TEXTFILE)
  ceres::DoglegType unchanged = ceres::SUBSPACE_DOGLEG;
  std::printf("unknown %d kept %d\n", ceres::StringToDoglegType("DOG", &unchanged),
              unchanged == ceres::SUBSPACE_DOGLEG);
  for (const auto type : {ceres::DENSE_QR, ceres::DENSE_SCHUR, ceres::SPARSE_SCHUR,
                          ceres::ITERATIVE_SCHUR, ceres::CGNR})
    std::printf("schur %d\n", ceres::IsSchurType(type));
  std::printf("eigen %d %d\n",
              ceres::IsSparseLinearAlgebraLibraryTypeAvailable(ceres::EIGEN_SPARSE),
              ceres::IsDenseLinearAlgebraLibraryTypeAvailable(ceres::EIGEN));
}

struct Distance {
  explicit Distance(double at) : at(at) {}
  template <typename T>
  bool operator()(const T* const point, T* residual) const {
    residual[0] = point[0] - at;
    residual[1] = point[0] * point[1] - 2.0 * at;
    residual[2] = point[1] - point[2] + 0.5 * at;
    return true;
  }
  double at;
};

struct Between {
  template <typename T>
  bool operator()(const T* const a, const T* const b, T* residual) const {
    for (int k = 0; k < 3; ++k) residual[k] = 0.5 * (a[k] - b[k]);
    return true;
  }
};

// Prints what the problem says of its blocks; true if the pointers are those that were added.
bool ShowProblem() {
  double a[3] = {1, 2, 3}, b[3] = {2, 1, 0};
  ceres::Problem built;
  auto* const cost = new ceres::AutoDiffCostFunction<Distance, 3, 3>(new Distance(1));
  auto* const loss = new ceres::HuberLoss(2);
  const ceres::ResidualBlockId first = built.AddResidualBlock(cost, loss, a);
  const ceres::ResidualBlockId second = built.AddResidualBlock(
      new ceres::AutoDiffCostFunction<Distance, 3, 3>(new Distance(1.5)), nullptr, b);
  const ceres::ResidualBlockId third = built.AddResidualBlock(
      new ceres::AutoDiffCostFunction<Between, 3, 3, 3>(new Between), nullptr, a, b);
  built.SetManifold(b, new ceres::SubsetManifold(3, {1}));

  ceres::Problem problem(std::move(built));
  std::vector<ceres::ResidualBlockId> blocks;
  problem.GetResidualBlocks(&blocks);
  bool good = blocks == std::vector<ceres::ResidualBlockId>{first, second, third};
  good = good && problem.GetCostFunctionForResidualBlock(first) == cost &&
         problem.GetLossFunctionForResidualBlock(first) == loss &&
         problem.GetLossFunctionForResidualBlock(second) == nullptr;
  std::printf("blocks %d sizes %d %d\n", static_cast<int>(blocks.size()),
              problem.ParameterBlockSize(b), problem.ParameterBlockTangentSize(b));
  std::printf("constant %d", problem.IsParameterBlockConstant(a));
  problem.SetParameterBlockConstant(a);
  std::printf(" %d", problem.IsParameterBlockConstant(a));
  problem.SetParameterBlockVariable(a);
  std::printf(" %d\n", problem.IsParameterBlockConstant(a));

  ceres::Solver::Options options;
  options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 1e-15;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("final %.10g\n", summary.final_cost);

  ceres::Covariance covariance((ceres::Covariance::Options()));
  const std::vector<const double*> wanted = {b, a};
  good = good && covariance.Compute(wanted, &problem);
  std::vector<double> tangent(25), ambient(36);
  good = good && covariance.GetCovarianceMatrixInTangentSpace(wanted, tangent.data()) &&
         covariance.GetCovarianceMatrix(wanted, ambient.data());
  for (int k = 0; k < 25; ++k) std::printf("tangent %d %.10g\n", k, tangent[k]);
  for (int k = 0; k < 36; ++k) std::printf("ambient %d %.10g\n", k, ambient[k]);
  return good;
}

// Σ (x_k − k)² + ½ (x_0 x_1)².
class Bowl : public ceres::FirstOrderFunction {
 public:
  bool Evaluate(const double* x, double* cost, double* gradient) const override {
    cost[0] = 0.5 * x[0] * x[0] * x[1] * x[1];
    for (int k = 0; k < 3; ++k) cost[0] += (x[k] - k) * (x[k] - k);
    if (gradient == nullptr) return true;
    for (int k = 0; k < 3; ++k) gradient[k] = 2 * (x[k] - k);
    gradient[0] += x[0] * x[1] * x[1];
    gradient[1] += x[0] * x[0] * x[1];
    return true;
  }
  int NumParameters() const override { return 3; }
};

bool ShowGradientProblem() {
  double x[3] = {3, -1, 0.5};
  const ceres::GradientProblem plain(new Bowl),
      with_manifold(new Bowl, new ceres::SubsetManifold(3, {0}));
  std::printf("gradient problem %d %d %d\n", plain.NumTangentParameters(),
              with_manifold.NumParameters(), with_manifold.NumTangentParameters());
  const double step[3] = {0.25, -0.5, 1};
  double sum[3], cost = 0, gradient[3];
  for (const ceres::GradientProblem* problem : {&plain, &with_manifold}) {
    std::printf("plus %d", problem->Plus(x, step, sum));
    for (const double v : sum) std::printf(" %g", v);
    std::printf("\nevaluate %d", problem->Evaluate(x, &cost, gradient));
    std::printf(" cost %.10g\n", cost);
    for (int k = 0; k < problem->NumTangentParameters(); ++k)
      std::printf("slope %d %.10g\n", k, gradient[k]);
  }
  ceres::GradientProblemSolver::Options options;
  options.function_tolerance = 1e-16;
  ceres::GradientProblemSolver::Summary summary;
  ceres::Solve(options, with_manifold, x, &summary);
  for (const double v : x) std::printf("x %.6f\n", v);
  std::printf("cost %.10g usable %d\n", summary.final_cost, summary.IsSolutionUsable());
  // Numbers of iterations and times are each library's own.
  for (const std::string& report : {summary.BriefReport(), summary.FullReport()}) {
    std::istringstream lines(report);
    for (std::string line; std::getline(lines, line);) {
      for (const char* name : {"Parameters", "Initial", "Final", "Ceres GradientProblemSolver"})
        if (line.rfind(name, 0) == 0) {
          std::istringstream words(line);
          std::string word, text = "report";
          while (words >> word && word != "Iterations:") text += ' ' + word;
          std::printf("%s |\n", text.c_str());
        }
    }
  }
  return summary.IsSolutionUsable();
}

}  // namespace

int main(int, char**) {
  ShowNames();
  const bool problem = ShowProblem(), gradient_problem = ShowGradientProblem();
  return problem && gradient_problem ? 0 : 1;
}
