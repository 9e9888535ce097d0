// How products with JᵀJ are made: by evaluating it, from a stored Jacobian, or from its blocks.
#include "normal_products.hpp"

#include "../recording/recorder.hpp"
#include "../terms/sum_choices.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::Fusion;

void NormalProducts::choose() {
  using From = ProductChoice::Source;
  made_->jacobians.clear();
  made_->matrix.reset();
  ProductFacts facts{.strategy_asked_for = context_.options.accumulation.has_value()};
  for (auto& term : terms_) {
    if (!term || !term->takes_part(Pass::jtjp)) continue;
    facts.operations = std::max(facts.operations, pass_cost(term->shape(), Pass::jtjp));
    facts.jacobian_fits = facts.jacobian_fits && term->terms_fit();
    facts.stored_bytes += context_.element_bytes() * (term->stored_size(Pass::stored_jacobian) +
                                                      2 * term->stored_size(Pass::jtjp));
  }
  const NormalMatrix asked = context_.options.normal_matrix;
  const auto start = std::chrono::steady_clock::now();
  NormalPlan plan;
  ProductChoice choice = decide_product(asked, facts);
  if (choice.asks_for_blocks) {
    plan = plan_blocks(choice.most_bytes);
    facts.blocks = {
        .obstacle = plan.why, .blocks = plan.blocks, .bytes = DeviceMatrix::bytes(context_, plan)};
    choice = decide_product(asked, facts);
  }
  *use_ = {.why = choice.why};
  if (choice.source == From::blocks) {
    made_->matrix = std::make_unique<DeviceMatrix>(context_, plan, terms_.all(), v_.blocks);
    *use_ = made_->matrix->use();
    use_->why = choice.why;
    context_.plan_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (choice.source != From::evaluation) make_jacobians(!made_->matrix);
}

/// The plan of JᵀJ; its `why` names what stands against it here.
NormalPlan NormalProducts::plan_blocks(std::uint64_t most_bytes) const {
  if (problem_.model().manifolds != nullptr) return {.why = {MatrixReason::manifolds}};
  NormalPlan plan =
      plan_normal_matrix(problem_.model(), terms_.slot_groups(),
                         {.number_bytes = context_.element_bytes(), .most_bytes = most_bytes});
  if (plan.possible()) plan.why = DeviceMatrix::obstacle(context_, plan, terms_.all());
  return plan;
}

void NormalProducts::make_jacobians(bool products) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const auto* term = terms_.takes_part(k, Pass::stored_jacobian) ? terms_[k].get() : nullptr;
    made_->jacobians.push_back(
        make_numbers(context_, term ? term->stored_size(Pass::stored_jacobian) : 1, "jacobian"));
    if (term && products)
      sums_.scratch(k) = make_numbers(context_, term->stored_size(Pass::jtjp), "terms");
  }
}

void NormalProducts::record(CommandList& list, const Operands& operands, const Buffer& out) {
  if (made_->matrix) return made_->matrix->record_multiply(list, *v_.ops, *operands.direction, out);
  if (stores_jacobian()) return record_stored_jtjp(list, operands, out);
  sums_.record(list, Pass::jtjp, operands, out);
}

void NormalProducts::record_stored_jtjp(CommandList& list, const Operands& operands,
                                        const Buffer& out) {
  list.fill(out, 0, problem_.model().scalars * context_.element_bytes(), 0);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::jtjp)) continue;
    terms_[k]->record_stored_jtjp(list, made_->jacobians[k], operands, sums_.scratch(k));
  }
  list.barrier();
  Hazards hazards(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::jtjp)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      hazards.order(sums_of(set->array()));
      set->record_stored(list, Pass::jtjp, sums_.scratch(k), terms_[k]->columns().stride(),
                         operands, {.out = &out, .first = set->x_first()});
    }
  }
  list.barrier();
}

void NormalProducts::record_jacobians(CommandList& list) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::stored_jacobian)) continue;
    terms_[k]->record_store(list, Pass::stored_jacobian, terms_.operands(v_.x),
                            made_->jacobians[k]);
  }
}

void NormalProducts::record_matrix(CommandList& list) {
  sums_.record_blocks(list, terms_.operands(v_.x));
  if (stores_jacobian()) record_jacobians(list);
  if (!made_->matrix) return;
  list.barrier();
  made_->matrix->record_values(list, *v_.ops, made_->jacobians, v_.packed);
}

void NormalProducts::make_curvature() {
  const std::size_t products = can_fuse() ? made_->fused.size() : 1;
  const std::uint64_t most = products * std::max(context_.grid(problem_.model().scalars),
                                                 context_.product_grid(problem_.model().scalars));
  v_.curvature = make_partials(
      context_, std::max<std::uint64_t>(most, made_->matrix ? made_->matrix->groups() : 0));
}

bool NormalProducts::can_fuse() {
  if (made_->can_fuse) return *made_->can_fuse;
  bool possible = problem_.model().manifolds == nullptr && !made_->matrix &&
                  context_.accumulation.accumulation == Accumulation::gather_recompute &&
                  !stores_jacobian() && context_.options.max_instances_per_dispatch == 0;
  std::size_t covered = 0;
  for (const GatherUse& use :
       possible ? sums_.gather_order(Pass::jtjp) : std::vector<GatherUse>()) {
    possible = possible && use.set->array() != kScalars && use.set->can_fuse();
    covered += use.covers ? 1 : 0;
  }
  made_->can_fuse =
      possible && covered > 0 && covered + terms_.fixed_arrays() == problem_.model().arrays.size();
  if (*made_->can_fuse) made_->fused = find_fused();
  return *made_->can_fuse;
}

std::vector<FusedProduct> NormalProducts::find_fused() {
  std::vector<FusedProduct> order;
  std::map<std::uint32_t, std::vector<const GatherSet*>> to_fuse;  // by array
  std::map<std::uint32_t, std::size_t> block_slots;
  for (const GatherUse& use : sums_.gather_order(Pass::jtjp)) {
    const std::uint32_t array = use.set->array();
    const bool fuses = !use.covers && FusedTerms::can_fuse(*use.set, problem_.model()) &&
                       block_slots[array] + use.set->block_slots() <= FusedTerms::kMostBlockSlots;
    if (fuses) {
      block_slots[array] += use.set->block_slots();
      to_fuse[array].push_back(use.set);
    } else {
      const Fusion first = order.empty() ? Fusion::decides : Fusion::begins;
      order.push_back({use, use.covers ? first : Fusion::adds, nullptr});
    }
  }
  for (FusedProduct& product : order) {
    const auto found = to_fuse.find(product.use.set->array());
    if (!product.use.covers || found == to_fuse.end()) continue;
    product.fused_terms = std::make_unique<FusedTerms>(context_, found->second, problem_.model());
  }
  return order;
}

std::string NormalProducts::name() const {
  return made_->matrix ? "assembled" : stores_jacobian() ? "stored_jacobian" : "recompute";
}

void NormalProducts::refresh_data(Made& made) {
  for (const FusedProduct& product : made.fused) {
    if (product.fused_terms) product.fused_terms->refresh_data();
  }
}

}  // namespace topograd::runtime::vulkan
