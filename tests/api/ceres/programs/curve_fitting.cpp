// y = exp(m x + c) through noisy samples, plainly and with outliers under a robust loss.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct ExponentialResidual {
  ExponentialResidual(double x, double y) : x_(x), y_(y) {}

  template <typename T>
  bool operator()(const T* const m, const T* const c, T* residual) const {
    residual[0] = y_ - exp(m[0] * x_ + c[0]);
    return true;
  }

 private:
  const double x_;
  const double y_;
};

struct Sample {
  double x, y;
};

std::vector<Sample> Samples(int outliers) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(-0.1, 0.1);
  std::vector<Sample> samples;
  for (int i = 0; i < 67; ++i) {
    const double x = 0.075 * i;
    samples.push_back({x, std::exp(0.3 * x + 0.1) + noise(random)});
    if (i % 10 == 3 && outliers-- > 0) samples.back().y += 12;
  }
  return samples;
}

bool Fit(const char* name, const std::vector<Sample>& samples, ceres::LossFunction* loss) {
  double m = 0.0;
  double c = 0.0;
  ceres::Problem problem;
  for (const Sample& s : samples) {
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<ExponentialResidual, 1, 1, 1>(
                                 new ExponentialResidual(s.x, s.y)),
                             loss, &m, &c);
  }
  ceres::Solver::Options options;
  options.max_num_iterations = 50;
  options.linear_solver_type = ceres::DENSE_QR;
  options.function_tolerance = 1e-14;
  options.parameter_tolerance = 1e-12;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("%s.m %.10g\n%s.c %.10g\n%s.cost %.10g\n", name, m, name, c, name,
              summary.final_cost);
  // Noise of 0.06 leaves the parameters uncertain by a few thousandths.
  return summary.termination_type == ceres::CONVERGENCE && std::abs(m - 0.3) < 0.02 &&
         std::abs(c - 0.1) < 0.06;
}

}  // namespace

int main(int, char**) {
  const bool plain = Fit("plain", Samples(0), nullptr);
  const bool cauchy = Fit("cauchy", Samples(3), new ceres::CauchyLoss(0.2));
  const bool huber = Fit("huber", Samples(3), new ceres::HuberLoss(0.1));
  const bool soft = Fit("soft", Samples(3), new ceres::SoftLOneLoss(0.05));
  const bool scaled =
      Fit("scaled", Samples(3),
          new ceres::ScaledLoss(new ceres::CauchyLoss(0.2), 3.0, ceres::TAKE_OWNERSHIP));
  // Outliers drag a plain fit away, so that the robust ones have something to show.
  const bool dragged = !Fit("dragged", Samples(3), nullptr);
  return plain && cauchy && huber && soft && scaled && dragged ? 0 : 1;
}
