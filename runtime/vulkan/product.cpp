// How conjugate gradients multiply by JᵀJ: by evaluating it, from a stored Jacobian, or from its
// blocks.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {
namespace {

/// Evaluating JᵀJ·p again costs more than reading a stored Jacobian from about so many operations
/// on.
constexpr std::uint64_t kRecomputeLimit = 200;

/// A product with JᵀJ by its blocks takes less than one from stored Jacobians where it reads so
/// many times less: planning it and summing it at every step have their price.
constexpr std::uint64_t kTimesSmaller = 2;

}  // namespace

void VulkanEngine::choose_product() {
  sums_->jacobians.clear();
  sums_->matrix.reset();
  *matrix_use_ = {.why = "not asked for"};
  std::uint64_t operations = 0, stored_bytes = 0;
  bool fits = true;
  for (auto& term : terms_) {
    if (!term || !term->takes_part(Pass::jtjp)) continue;
    operations = std::max(operations, term->cost_of(Pass::jtjp));
    fits = fits && term->terms_fit();
    stored_bytes += context_.element_bytes() *
                    (term->stored_size(Pass::stored_jacobian) + 2 * term->stored_size(Pass::jtjp));
  }
  const NormalMatrix asked = options_.normal_matrix;
  const bool stores = !options_.accumulation && fits && operations > kRecomputeLimit;
  if (asked == NormalMatrix::automatic && !stores)
    matrix_use_->why = "evaluating a product takes less than reading it would";
  if (asked == NormalMatrix::assembled || (asked == NormalMatrix::automatic && stores)) {
    sums_->matrix =
        make_matrix(asked == NormalMatrix::assembled ? std::numeric_limits<std::uint64_t>::max()
                                                     : stored_bytes / kTimesSmaller);
  }
  if (sums_->matrix || stores) make_jacobians(!sums_->matrix);
}

void VulkanEngine::make_jacobians(bool products) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const auto* term = terms_.takes_part(k, Pass::stored_jacobian) ? terms_[k].get() : nullptr;
    sums_->jacobians.push_back(
        make_numbers(context_, term ? term->stored_size(Pass::stored_jacobian) : 1, "jacobian"));
    if (term && products)
      sums_->stored[k] = make_numbers(context_, term->stored_size(Pass::jtjp), "terms");
  }
}

/// Null: (*matrix_use_) says why not.
std::unique_ptr<DeviceMatrix> VulkanEngine::make_matrix(std::uint64_t most_bytes) {
  const auto start = std::chrono::steady_clock::now();
  NormalPlan plan;
  if (charted()) {
    plan.why = "blocks on manifolds go without";
  } else {
    plan = plan_normal_matrix(problem_.model(), terms_.slot_groups());
  }
  if (plan.possible()) plan.why = DeviceMatrix::obstacle(context_, plan, terms_.all());
  const std::uint64_t bytes = DeviceMatrix::bytes(context_, plan);
  if (plan.possible() && bytes > most_bytes)
    plan.why = "its blocks take " + std::to_string(bytes) + " bytes, which pays up to " +
               std::to_string(most_bytes);
  *matrix_use_ = {.why = plan.why};
  if (!plan.possible()) return nullptr;
  auto matrix = std::make_unique<DeviceMatrix>(context_, std::move(plan), terms_.all(), v_.blocks);
  *matrix_use_ = matrix->use();
  matrix_use_->why = std::to_string(matrix_use_->blocks) + " blocks, " +
                     std::to_string(matrix_use_->bytes) + " bytes";
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return matrix;
}

}  // namespace topograd::runtime::vulkan
