// compiles: what programs for Ceres take from <ceres/ceres.h> alone.
#include "ceres/ceres.h"

int main(int, char** argv) {
  google::InitGoogleLogging(argv[0]);
  const double angle = ceres::constants::pi / 2;
  CHECK_GT(angle, 1) << "half a turn";
  LOG_IF(WARNING, angle > 2) << angle;
  VLOG(2) << std::string("words") << std::cos(angle);
  ceres::Problem problem;
  double q[4] = {1, 0, 0, 0}, p[3] = {1, 2, 3};
  problem.AddParameterBlock(q, 4, new ceres::QuaternionParameterization);
  problem.AddParameterBlock(p, 3, nullptr);
  problem.SetParameterization(p, new ceres::SubsetParameterization(3, {1}));
  std::map<const double*, std::unique_ptr<std::vector<int>>> kept;
  if (!kept.empty()) LOG(FATAL) << "never";
}
