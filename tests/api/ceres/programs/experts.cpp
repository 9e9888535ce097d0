// Image denoising: robust costs of filter responses, as cost and loss functions of the program's
// own, by both minimisers.
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "ceres/ceres.h"

namespace {

constexpr int kSide = 12;

// The filter's response: a weighted sum of pixels.
class FilterCost : public ceres::CostFunction {
 public:
  explicit FilterCost(const std::vector<double>& filter) : filter_(filter) {
    set_num_residuals(1);
    for (std::size_t i = 0; i < filter.size(); ++i) mutable_parameter_block_sizes()->push_back(1);
  }
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    residuals[0] = 0;
    for (std::size_t i = 0; i < filter_.size(); ++i) residuals[0] += filter_[i] * parameters[i][0];
    if (jacobians == nullptr) return true;
    for (std::size_t i = 0; i < filter_.size(); ++i)
      if (jacobians[i] != nullptr) jacobians[i][0] = filter_[i];
    return true;
  }

 private:
  const std::vector<double> filter_;
};

// alpha log(1 + s / 2), once the square root of the residual's square is s.
class FilterLoss : public ceres::LossFunction {
 public:
  explicit FilterLoss(double alpha) : alpha_(alpha) {}
  void Evaluate(double sq_norm, double rho[3]) const override {
    const double c = 0.5, sum = 1.0 + sq_norm * c, inv = 1.0 / sum;
    rho[0] = alpha_ * 2.0 * std::log(sum);
    rho[1] = alpha_ * 2.0 * c * inv;
    rho[2] = -alpha_ * 2.0 * c * c * inv * inv;
  }

 private:
  const double alpha_;
};

class Pixel : public ceres::SizedCostFunction<1, 1> {
 public:
  Pixel(double a, double b) : a_(a), b_(b) {}
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    residuals[0] = a_ * (parameters[0][0] - b_);
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = a_;
    return true;
  }

 private:
  double a_, b_;
};

double Denoise(const std::vector<double>& noisy, ceres::MinimizerType minimizer,
               std::vector<double>* image) {
  *image = noisy;
  std::unique_ptr<ceres::LossFunction> loss(new FilterLoss(0.5));
  std::unique_ptr<ceres::CostFunction> across(new FilterCost({3, -3})),
      corner(new FilterCost({2, -2, -2, 2}));
  ceres::Problem::Options problem_options;
  problem_options.cost_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  problem_options.loss_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
  ceres::Problem problem(problem_options);
  const auto at = [&](int i, int j) { return image->data() + i * kSide + j; };
  std::vector<std::unique_ptr<Pixel>> pixels;
  for (int i = 0; i < kSide; ++i) {
    for (int j = 0; j < kSide; ++j) {
      if (j + 1 < kSide) problem.AddResidualBlock(across.get(), loss.get(), at(i, j), at(i, j + 1));
      if (i + 1 < kSide) problem.AddResidualBlock(across.get(), loss.get(), at(i, j), at(i + 1, j));
      if (i + 1 < kSide && j + 1 < kSide)
        problem.AddResidualBlock(
            corner.get(), loss.get(),
            std::vector<double*>{at(i, j), at(i, j + 1), at(i + 1, j), at(i + 1, j + 1)});
      pixels.emplace_back(new Pixel(2.0, noisy[i * kSide + j]));
      problem.AddResidualBlock(pixels.back().get(), nullptr, at(i, j));
      // Ceres' line search takes no bounds.
      if (minimizer == ceres::TRUST_REGION) problem.SetParameterLowerBound(at(i, j), 0, -10.0);
    }
  }
  ceres::Solver::Options options;
  options.minimizer_type = minimizer;
  options.max_num_iterations = 200;
  options.function_tolerance = 1e-10;
  if (minimizer == ceres::TRUST_REGION) options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary.final_cost;
}

}  // namespace

int main(int, char**) {
  std::vector<double> noisy, image;
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j)
      noisy.push_back((i > 5 ? 1.0 : 0.0) + (j > 3 ? 0.5 : 0.0) +
                      0.1 * std::sin(37.0 * (i * kSide + j)));
  const double by_steps = Denoise(noisy, ceres::TRUST_REGION, &image);
  std::printf("trust-region %.6f\n", by_steps);
  for (int k = 0; k < 8; ++k) std::printf("pixel%d %.3f\n", k, image[17 * k]);
  const double by_lines = Denoise(noisy, ceres::LINE_SEARCH, &image);
  std::printf("line-search %.4f\n", by_lines);
  return std::abs(by_steps - by_lines) < 1e-3 * by_steps ? 0 : 1;
}
