// Ceres' interface for C.
#include "c_api.hpp"

#include "../../ir/error.hpp"
#include "cost/loss_function.hpp"
#include "problem/problem.hpp"
#include "solver/solver.hpp"

#include <iostream>
#include <memory>
#include <span>

namespace {

class CallbackCost final : public ceres::CostFunction {
 public:
  CallbackCost(ceres_cost_function_t function, void* data, int num_residuals,
               std::span<const int> sizes)
      : function_(function), data_(data) {
    set_num_residuals(num_residuals);
    mutable_parameter_block_sizes()->assign(sizes.begin(), sizes.end());
  }
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    return function_(data_, const_cast<double**>(parameters), residuals, jacobians) != 0;
  }

 private:
  ceres_cost_function_t function_;
  void* data_;
};

class CallbackLoss final : public ceres::LossFunction {
 public:
  CallbackLoss(ceres_loss_function_t function, void* data) : function_(function), data_(data) {}
  void Evaluate(double squared_norm, double out[3]) const override {
    function_(data_, squared_norm, out);
  }

 private:
  ceres_loss_function_t function_;
  void* data_;
};

ceres::Problem* problem_of(ceres_problem_t* problem) {
  return reinterpret_cast<ceres::Problem*>(problem);
}

}  // namespace

void ceres_init(void) {}

void* ceres_create_huber_loss_function_data(double a) { return new ceres::HuberLoss(a); }
void* ceres_create_softl1_loss_function_data(double a) { return new ceres::SoftLOneLoss(a); }
void* ceres_create_cauchy_loss_function_data(double a) { return new ceres::CauchyLoss(a); }
void* ceres_create_arctan_loss_function_data(double a) { return new ceres::ArctanLoss(a); }
void* ceres_create_tolerant_loss_function_data(double a, double b) {
  return new ceres::TolerantLoss(a, b);
}
void ceres_free_stock_loss_function_data(void* loss_function_data) {
  delete static_cast<ceres::LossFunction*>(loss_function_data);
}
void ceres_stock_loss_function(void* user_data, double squared_norm, double out[3]) {
  static_cast<const ceres::LossFunction*>(user_data)->Evaluate(squared_norm, out);
}

ceres_problem_t* ceres_create_problem(void) {
  return reinterpret_cast<ceres_problem_t*>(new ceres::Problem);
}
void ceres_free_problem(ceres_problem_t* problem) { delete problem_of(problem); }

ceres_residual_block_id_t* ceres_problem_add_residual_block(
    ceres_problem_t* problem, ceres_cost_function_t cost_function, void* cost_function_data,
    ceres_loss_function_t loss_function, void* loss_function_data, int num_residuals,
    int num_parameter_blocks, int* parameter_block_sizes, double** parameters) {
  const auto count = static_cast<std::size_t>(num_parameter_blocks);
  auto cost = std::make_unique<CallbackCost>(cost_function, cost_function_data, num_residuals,
                                             std::span<const int>(parameter_block_sizes, count));
  std::unique_ptr<ceres::LossFunction> loss;
  if (loss_function != nullptr)
    loss = std::make_unique<CallbackLoss>(loss_function, loss_function_data);
  try {
    return reinterpret_cast<ceres_residual_block_id_t*>(problem_of(problem)->AddResidualBlock(
        cost.release(), loss.release(), parameters, num_parameter_blocks));
  } catch (const topograd::Error&) {
    return nullptr;
  }
}

void ceres_solve(ceres_problem_t* problem) {
  ceres::Solver::Options options;
  options.max_num_iterations = 100;
  options.linear_solver_type = ceres::DENSE_QR;
  options.minimizer_progress_to_stdout = true;
  ceres::Solver::Summary summary;
  ceres::Solve(options, problem_of(problem), &summary);
  std::cout << summary.FullReport() << "\n";
}
