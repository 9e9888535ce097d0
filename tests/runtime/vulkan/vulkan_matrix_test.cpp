// Steps with an assembled JᵀJ on a device against matrix-free ones.
#include "../../support/validation.hpp"
#include "../engines/engine_models.hpp"

#include "../../../runtime/vulkan/engine.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using codegen::Precision;
using runtime::EngineOptions;
using runtime::NormalMatrix;
using runtime::Preconditioner;

class VulkanMatrix : public VulkanTest {};

struct Stepped {
  int iterations = 0;
  std::vector<double> step;
  runtime::NormalMatrixUse use;
};

Stepped step_by(const OwnedModel& m, const EngineOptions& options, double tolerance) {
  const auto engine = runtime::vulkan::make_vulkan_engine(m.model, options);
  engine->set_point(m.x);
  runtime::damped_steps(*engine).begin_solve();
  runtime::damped_steps(*engine).linearize();
  Stepped out;
  runtime::damped_steps(*engine).try_step(
      {.lambda = 1e-3, .linear_tolerance = tolerance, .max_linear_iterations = 3000});
  // The second time lambda differs, the matrix does not.
  out.iterations =
      runtime::damped_steps(*engine)
          .try_step({.lambda = 1e-2, .linear_tolerance = tolerance, .max_linear_iterations = 3000})
          .linear_iterations;
  out.step.resize(m.x.size());
  engine->abilities().last_step->last_step(out.step);
  out.use = runtime::damped_steps(*engine).normal_matrix();
  return out;
}

OwnedModel with_constants(OwnedModel m) {
  m.model.constant.assign(m.x.size(), 0);
  for (std::size_t k = 30; k < 42; ++k) m.model.constant[k] = 1;
  for (const std::size_t k : {20, 47, 70}) m.model.constant[k] = 1;
  return m;
}

OwnedModel with_box(OwnedModel m) {
  m.model.lower = m.x;
  m.model.upper.assign(m.x.size(), 1e9);
  for (std::size_t k = 0; k < m.x.size(); k += 2) m.model.lower[k] = -1e9;
  return m;
}

TEST_F(VulkanMatrix, StepsAreThoseWithoutIt) {
  std::vector<OwnedModel> models;
  models.push_back(springs_model(60, 150));
  models.push_back(shared_model(40));
  models.push_back(pulled_sheet_model(9));
  models.push_back(with_constants(pulled_sheet_model(9)));
  models.push_back(with_box(springs_model(60, 150)));
  for (std::size_t k = 0; k < models.size(); ++k) {
    for (const Precision precision : precisions()) {
      for (const Preconditioner kind : {Preconditioner::block_jacobi, Preconditioner::two_level}) {
        SCOPED_TRACE(std::to_string(k) + std::string(codegen::name(precision)));
        const bool wide = precision == Precision::f64;
        EngineOptions options{.precision = precision, .validation = true, .preconditioner = kind};
        options.normal_matrix = NormalMatrix::matrix_free;
        const Stepped free = step_by(models[k], options, wide ? 1e-11 : 1e-5);
        options.normal_matrix = NormalMatrix::assembled;
        const Stepped matrix = step_by(models[k], options, wide ? 1e-11 : 1e-5);
        EXPECT_FALSE(free.use.assembled);
        ASSERT_TRUE(matrix.use.assembled);
        EXPECT_LE(relative_difference(matrix.step, free.step), wide ? 1e-9 : 1e-3);
        const int slack = 2 + free.iterations / 20;
        EXPECT_NEAR(matrix.iterations, free.iterations, slack);
        EXPECT_EQ(matrix.step, step_by(models[k], options, wide ? 1e-11 : 1e-5).step);
      }
    }
  }
}

TEST_F(VulkanMatrix, SaysWhyThereIsNone) {
  const OwnedModel m = chain_model(40);
  const auto engine = runtime::vulkan::make_vulkan_engine(
      m.model, {.precision = Precision::f32, .normal_matrix = NormalMatrix::assembled});
  engine->set_point(m.x);
  runtime::damped_steps(*engine).linearize();
  runtime::damped_steps(*engine).try_step({.lambda = 1e-2});
  EXPECT_FALSE(runtime::damped_steps(*engine).normal_matrix().assembled);
  EXPECT_EQ(runtime::damped_steps(*engine).normal_matrix().why.reason,
            runtime::MatrixReason::unlike_order);
}

TEST_F(VulkanMatrix, AssembledWhereItFitsARangeOnly) {
  const OwnedModel m = springs_model(60, 150);
  const auto engine =
      runtime::vulkan::make_vulkan_engine(m.model, {.precision = Precision::f32,
                                                    .max_storage_buffer_range = 4096,
                                                    .normal_matrix = NormalMatrix::assembled});
  engine->set_point(m.x);
  runtime::damped_steps(*engine).linearize();
  runtime::damped_steps(*engine).try_step({.lambda = 1e-2});
  EXPECT_EQ(runtime::damped_steps(*engine).normal_matrix().why.reason,
            runtime::MatrixReason::out_of_range);
}

}  // namespace
}  // namespace topograd::test
