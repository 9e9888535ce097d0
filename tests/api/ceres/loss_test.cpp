// Loss functions: values by their formulas, derivatives by differences, ownership.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ceres/loss_function.h"

namespace {

struct Row {
  std::string name;
  std::shared_ptr<ceres::LossFunction> loss;
  std::function<long double(long double)> rho;
};

template <class Loss, class... Args>
std::shared_ptr<ceres::LossFunction> Make(Args... args) {
  return std::make_shared<Loss>(args...);
}

const auto kHuber = [](long double s) { return s <= 4 ? s : 4 * std::sqrt(s) - 4; };
const auto kCauchy = [](long double s) { return 0.25L * std::log(1 + s / 0.25L); };

const std::vector<Row> kRows = {
    {"trivial", Make<ceres::TrivialLoss>(), [](long double s) { return s; }},
    {"huber", Make<ceres::HuberLoss>(2.0), kHuber},
    {"soft", Make<ceres::SoftLOneLoss>(2.0),
     [](long double s) { return 8 * (std::sqrt(1 + s / 4) - 1); }},
    {"cauchy", Make<ceres::CauchyLoss>(0.5), kCauchy},
    {"arctan", Make<ceres::ArctanLoss>(2.0), [](long double s) { return 2 * std::atan(s / 2); }},
    {"tolerant", Make<ceres::TolerantLoss>(3.0, 0.5),
     [](long double s) {
       return 0.5L * std::log(1 + std::exp((s - 3) / 0.5L)) -
              0.5L * std::log(1 + std::exp(-3 / 0.5L));
     }},
    {"tukey", Make<ceres::TukeyLoss>(2.0),
     [](long double s) { return s <= 4 ? 4 / 3.0L * (1 - std::pow(1 - s / 4, 3.0L)) : 4 / 3.0L; }},
    {"scaled", Make<ceres::ScaledLoss>(new ceres::HuberLoss(2), 3.0, ceres::TAKE_OWNERSHIP),
     [](long double s) { return 3 * kHuber(s); }},
    {"scaled trivial", Make<ceres::ScaledLoss>(nullptr, 3.0, ceres::TAKE_OWNERSHIP),
     [](long double s) { return 3 * s; }},
    {"composed",
     Make<ceres::ComposedLoss>(new ceres::CauchyLoss(0.5), ceres::TAKE_OWNERSHIP,
                               new ceres::HuberLoss(2), ceres::TAKE_OWNERSHIP),
     [](long double s) { return kCauchy(kHuber(s)); }},
};

TEST(CeresLoss, ValuesAndDerivatives) {
  for (const Row& row : kRows) {
    for (const double s : {0.1, 0.7, 2.0, 3.3, 9.0}) {
      double rho[3];
      row.loss->Evaluate(s, rho);
      const long double h = 1e-3L;
      const long double below = row.rho(s - h), at = row.rho(s), above = row.rho(s + h);
      EXPECT_NEAR(rho[0], static_cast<double>(at), 1e-14 * (1 + std::abs(rho[0]))) << row.name << s;
      EXPECT_NEAR(rho[1], static_cast<double>((above - below) / (2 * h)), 4e-5) << row.name << s;
      EXPECT_NEAR(rho[2], static_cast<double>((above - 2 * at + below) / (h * h)), 4e-4)
          << row.name << s;
      ASSERT_TRUE(row.loss->Lowered().has_value()) << row.name;
      EXPECT_NEAR(row.loss->Lowered()->evaluate(s)[0], rho[0], 1e-14 * (1 + rho[0])) << row.name;
    }
  }
}

class Own : public ceres::LossFunction {
 public:
  explicit Own(int* alive) : alive_(alive) { ++*alive_; }
  ~Own() override { --*alive_; }
  void Evaluate(double s, double out[3]) const override {
    out[0] = 5 * s;
    out[1] = 5;
    out[2] = 0;
  }

 private:
  int* alive_;
};

TEST(CeresLoss, WrappersExchangeAndOwn) {
  int alive = 0;
  {
    Own mine(&alive);
    ceres::LossFunctionWrapper wrapper(&mine, ceres::DO_NOT_TAKE_OWNERSHIP);
    double rho[3];
    wrapper.Evaluate(2, rho);
    EXPECT_EQ(rho[0], 10);
    EXPECT_FALSE(wrapper.Lowered().has_value());
    wrapper.Reset(new Own(&alive), ceres::TAKE_OWNERSHIP);
    EXPECT_EQ(alive, 2);
    wrapper.Reset(nullptr, ceres::TAKE_OWNERSHIP);
    EXPECT_EQ(alive, 1);
    wrapper.Evaluate(2, rho);
    EXPECT_EQ(rho[0], 2);
    EXPECT_TRUE(wrapper.Lowered()->is_trivial());
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
