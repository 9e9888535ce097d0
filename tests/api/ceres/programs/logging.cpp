// A program with glog and gflags in addition to Ceres, like Ceres' own examples.
#include <cmath>

#include "ceres/ceres.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_double(start, 4.0, "Where the search begins.");
DEFINE_int32(iterations, 25, "At most so many steps.");
DEFINE_bool(talk, false, "Says more.");
DEFINE_string(trust_region_strategy, "levenberg_marquardt", "Name of the strategy.");

namespace {

struct Root {
  template <typename T>
  bool operator()(const T* const x, T* residual) const {
    residual[0] = x[0] * x[0] - 2.0;
    return true;
  }
};

}  // namespace

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  GFLAGS_NAMESPACE::ParseCommandLineFlags(&argc, &argv, true);
  CHECK_EQ(argc, 1) << "unexpected arguments";
  CHECK(!CERES_GET_FLAG(FLAGS_trust_region_strategy).empty());

  double x = CERES_GET_FLAG(FLAGS_start);
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Root, 1, 1>(new Root), nullptr, &x);
  ceres::Solver::Options options;
  options.max_num_iterations = CERES_GET_FLAG(FLAGS_iterations);
  CHECK(ceres::StringToTrustRegionStrategyType(CERES_GET_FLAG(FLAGS_trust_region_strategy),
                                               &options.trust_region_strategy_type));
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  if (!summary.IsSolutionUsable()) LOG(ERROR) << summary.message;
  LOG_IF(INFO, CERES_GET_FLAG(FLAGS_talk)) << summary.FullReport();
  VLOG(2) << "x = " << x;
  CHECK_NEAR(x, std::sqrt(2.0), 1e-6);
  CHECK_NOTNULL(&x);
  DCHECK_GT(x, 0.0);
  return 0;
}
