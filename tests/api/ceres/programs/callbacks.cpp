// Iteration callbacks that look and stop, and an evaluation callback that
// prepares shared work.
#include <cmath>
#include <cstdio>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct Square {
  template <typename T>
  bool operator()(const T* const x, T* residual) const {
    residual[0] = x[0] * x[0] - 2.0;
    return true;
  }
};

class Recorder : public ceres::IterationCallback {
 public:
  explicit Recorder(const double* x) : x_(x) {}
  ceres::CallbackReturnType operator()(const ceres::IterationSummary& summary) override {
    costs.push_back(summary.cost);
    values.push_back(*x_);
    return summary.iteration >= last ? answer : ceres::SOLVER_CONTINUE;
  }

  std::vector<double> costs, values;
  int last = 1000;
  ceres::CallbackReturnType answer = ceres::SOLVER_CONTINUE;

 private:
  const double* x_;
};

bool Looks(bool update_state) {
  double x = 5;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Square, 1, 1>(new Square), nullptr, &x);
  Recorder recorder(&x);
  ceres::Solver::Options options;
  options.callbacks.push_back(&recorder);
  options.update_state_every_iteration = update_state;
  options.function_tolerance = 1e-14;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  bool good = std::abs(x - std::sqrt(2.0)) < 1e-6 && recorder.costs.size() > 3 &&
              recorder.costs.front() == summary.initial_cost;
  for (std::size_t k = 0; k < recorder.values.size(); ++k) {
    const double r = recorder.values[k] * recorder.values[k] - 2;
    const double expected = update_state ? recorder.costs[k] : summary.initial_cost;
    good = good && std::abs(r * r / 2 - expected) <= 1e-12 * (1 + expected);
  }
  return good;
}

bool Stops(ceres::CallbackReturnType answer, ceres::TerminationType expected) {
  double x = 5;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Square, 1, 1>(new Square), nullptr, &x);
  Recorder recorder(&x);
  recorder.last = 2;
  recorder.answer = answer;
  ceres::Solver::Options options;
  options.callbacks.push_back(&recorder);
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("stopped %s after %d\n", ceres::TerminationTypeToString(summary.termination_type),
              static_cast<int>(recorder.costs.size()));
  return summary.termination_type == expected && recorder.costs.size() == 3;
}

// Residuals that share a table, which is filled once per point.
struct Table {
  double x = 0, y = 0;  // the prepared point
  double exponential = 0;
  int fills = 0;
};

class Fill : public ceres::EvaluationCallback {
 public:
  Fill(const double* x, const double* y, Table* table) : x_(x), y_(y), table_(table) {}
  void PrepareForEvaluation(bool, bool new_evaluation_point) override {
    if (!new_evaluation_point) return;
    table_->x = *x_;
    table_->y = *y_;
    table_->exponential = std::exp(*x_ + *y_);
    ++table_->fills;
  }

 private:
  const double* x_;
  const double* y_;
  Table* table_;
};

class FromTable : public ceres::SizedCostFunction<1, 1, 1> {
 public:
  FromTable(const Table* table, double goal, double weight)
      : table_(table), goal_(goal), weight_(weight) {}
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    // The table must be of this very point.
    if (table_->x != parameters[0][0] || table_->y != parameters[1][0]) return false;
    residuals[0] = table_->exponential - goal_ + weight_ * parameters[0][0];
    if (jacobians == nullptr) return true;
    if (jacobians[0] != nullptr) jacobians[0][0] = table_->exponential + weight_;
    if (jacobians[1] != nullptr) jacobians[1][0] = table_->exponential;
    return true;
  }

 private:
  const Table* table_;
  double goal_, weight_;
};

// exp(x + y) = 2 and exp(x + y) + x = 2.5: x = 0.5, y = log 2 - 0.5.
bool Prepares() {
  double x = 0, y = 0;
  Table table;
  Fill fill(&x, &y, &table);
  ceres::Problem::Options problem_options;
  problem_options.evaluation_callback = &fill;
  ceres::Problem problem(problem_options);
  problem.AddResidualBlock(new FromTable(&table, 2, 0), nullptr, &x, &y);
  problem.AddResidualBlock(new FromTable(&table, 2.5, 1), nullptr, &x, &y);
  ceres::Solver::Options options;
  options.function_tolerance = 1e-16;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("x %.8f\ny %.8f\n", x, y);
  return summary.IsSolutionUsable() && std::abs(x - 0.5) < 1e-7 &&
         std::abs(y - (std::log(2.0) - 0.5)) < 1e-7 && table.fills > 2;
}

}  // namespace

int main(int, char**) {
  return Looks(false) && Looks(true) && Stops(ceres::SOLVER_ABORT, ceres::USER_FAILURE) &&
                 Stops(ceres::SOLVER_TERMINATE_SUCCESSFULLY, ceres::USER_SUCCESS) && Prepares()
             ? 0
             : 1;
}
