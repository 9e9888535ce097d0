// compiles: what programs for Ceres take from <ceres/problem.h> alone.
#include "ceres/problem.h"

int f(const std::set<int>& a, const std::map<int, int>& b, const std::array<int, 2>& c) {
  LOG(INFO) << a.size() << b.size();
  return std::unique_ptr<std::vector<int>>() ? c[0] : c[1];
}
