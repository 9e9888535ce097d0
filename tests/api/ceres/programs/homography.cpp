// A homography between two views of a plane: symmetric transfer errors with Eigen's matrices of T,
// stopped by a callback that looks at the parameters.
#include <cmath>
#include <cstdio>
#include <vector>

#include "Eigen/Dense"
#include "ceres/ceres.h"

namespace {

using Mat3 = Eigen::Matrix<double, 3, 3>;
using Vec2 = Eigen::Matrix<double, 2, 1>;

template <typename T>
void SymmetricTransferTerms(const Eigen::Matrix<T, 3, 3>& H, const Eigen::Matrix<T, 2, 1>& x1,
                            const Eigen::Matrix<T, 2, 1>& x2, T forward[2], T backward[2]) {
  using Vec3 = Eigen::Matrix<T, 3, 1>;
  const Vec3 x(x1(0), x1(1), T(1.0)), y(x2(0), x2(1), T(1.0));
  Vec3 H_x = H * x;
  Vec3 Hinv_y = H.inverse() * y;
  H_x /= H_x(2);
  Hinv_y /= Hinv_y(2);
  forward[0] = H_x(0) - y(0);
  forward[1] = H_x(1) - y(1);
  backward[0] = Hinv_y(0) - x(0);
  backward[1] = Hinv_y(1) - x(1);
}

class SymmetricError {
 public:
  SymmetricError(const Vec2& x, const Vec2& y) : x_(x), y_(y) {}

  template <typename T>
  bool operator()(const T* homography_parameters, T* residuals) const {
    using Matrix = Eigen::Matrix<T, 3, 3>;
    using Vector = Eigen::Matrix<T, 2, 1>;
    const Matrix H(homography_parameters);
    const Vector x(T(x_(0)), T(x_(1))), y(T(y_(0)), T(y_(1)));
    SymmetricTransferTerms<T>(H, x, y, &residuals[0], &residuals[2]);
    return true;
  }

  const Vec2 x_, y_;
};

// Ends a solve once the mean error is small enough.
class CloseEnough : public ceres::IterationCallback {
 public:
  CloseEnough(const std::vector<Vec2>& x, const std::vector<Vec2>& y, double enough, Mat3* H)
      : x_(x), y_(y), enough_(enough), H_(H) {}

  ceres::CallbackReturnType operator()(const ceres::IterationSummary& summary) override {
    if (!summary.step_is_successful) return ceres::SOLVER_CONTINUE;
    double sum = 0;
    for (std::size_t k = 0; k < x_.size(); ++k) {
      double forward[2], backward[2];
      SymmetricTransferTerms<double>(*H_, x_[k], y_[k], forward, backward);
      sum += Vec2(forward).squaredNorm() + Vec2(backward).squaredNorm();
    }
    return sum / static_cast<double>(x_.size()) <= enough_ ? ceres::SOLVER_TERMINATE_SUCCESSFULLY
                                                           : ceres::SOLVER_CONTINUE;
  }

 private:
  const std::vector<Vec2>&x_, &y_;
  double enough_;
  Mat3* H_;
};

}  // namespace

int main(int, char**) {
  Mat3 truth;
  truth << 1.24, -0.22, 5.96, 0.27, 1.33, 3.1, -0.0012, 0.0021, 1;
  std::vector<Vec2> x, y;
  for (int k = 0; k < 40; ++k) {
    const Vec2 point(31.0 * std::sin(1.3 * k), 27.0 * std::cos(2.1 * k));
    const Eigen::Vector3d image = truth * Eigen::Vector3d(point(0), point(1), 1.0);
    x.push_back(point);
    y.push_back(Vec2(image(0) / image(2), image(1) / image(2)));
  }

  Mat3 H = truth;
  H(0, 0) += 0.1;
  H(1, 2) -= 0.4;
  H(2, 0) += 0.0004;
  ceres::Problem problem;
  for (std::size_t k = 0; k < x.size(); ++k)
    problem.AddResidualBlock(
        new ceres::AutoDiffCostFunction<SymmetricError, 4, 9>(new SymmetricError(x[k], y[k])),
        nullptr, H.data());
  CloseEnough callback(x, y, 1e-16, &H);
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.max_num_iterations = 50;
  options.update_state_every_iteration = true;
  options.callbacks.push_back(&callback);
  options.function_tolerance = 1e-20;
  options.gradient_tolerance = 1e-16;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  H /= H(2, 2);
  for (int k = 0; k < 9; ++k) std::printf("h%d %.10g\n", k, H(k / 3, k % 3));
  std::printf("usable %d\n", summary.IsSolutionUsable() ? 1 : 0);
  return (H - truth).norm() < 1e-6 ? 0 : 1;
}
