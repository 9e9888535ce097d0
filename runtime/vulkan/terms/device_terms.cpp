// Data of all terms together: uniforms, costs, counts of failed guards.
#include "device_terms.hpp"

#include <algorithm>
#include <chrono>

namespace topograd::runtime::vulkan {

void DeviceTerms::build() {
  all_.clear();
  const Model& model = problem_.model();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t k = 0; k < model.terms.size(); ++k) {
    const Term& term = model.terms[k];
    all_.push_back(term.batch->size() == 0 ? nullptr
                                           : std::make_unique<DeviceTerm>(context_, term, model));
  }
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  uniforms_ = make_buffer(context_, model.uniforms, "uniforms");
  std::uint64_t cost_partials = 0;
  for (const auto& term : all_) cost_partials += term ? term->columns().cost_partials() : 0;
  cost_partials_ = make_partials(context_, cost_partials);
  const bool guards =
      std::ranges::any_of(all_, [](const auto& term) { return term && term->has_guards(); });
  failures_ = guards ? make_buffer(context_, std::vector<std::uint32_t>{0}, "failures") : Buffer();
}

std::vector<std::vector<SlotGroup>> DeviceTerms::slot_groups() const {
  std::vector<std::vector<SlotGroup>> groups(all_.size());
  for (std::size_t k = 0; k < all_.size(); ++k) {
    if (all_[k]) groups[k] = all_[k]->shape().groups;
  }
  return groups;
}

void DeviceTerms::write_uniforms() {
  write_numbers(context_, uniforms_, problem_.model().uniforms);
}

void DeviceTerms::record_cost(CommandList& list, const Buffer& x, codegen::Scalar result) {
  std::uint32_t partials = 0;
  Operands counted = operands(x);
  if (have_guards()) {
    counted.failures = &failures_;
    record_no_failures(list);
  }
  for (auto& term : all_) {
    if (term) partials += term->record_cost(list, counted, cost_partials_, partials);
  }
  list.barrier();
  v_.ops->sum(list, cost_partials_, 0, partials, partials, result, 1);
  list.barrier();
}

void DeviceTerms::record_no_failures(CommandList& list) const {
  list.fill(failures_, 0, sizeof(std::uint32_t), 0);
  list.barrier();
}

std::uint64_t DeviceTerms::failed_guards() const {
  if (!have_guards()) return 0;
  std::uint32_t count = 0;
  context_.device->download<std::uint32_t>(failures_, {&count, 1});
  return count;
}

std::uint64_t DeviceTerms::most_costs() const {
  std::uint64_t most = 0;
  for (const auto& term : all_) {
    if (!term) continue;
    std::uint64_t costs = term->columns().cost_partials();
    for (const auto& set : term->gather_sets()) costs = std::max(costs, set->most_costs());
    most += costs;
  }
  return most;
}

void DeviceTerms::use_mask(bool masked) {
  masked_ = masked;
  for (auto& term : all_) {
    if (term) term->use_mask(masked);
  }
}

std::size_t DeviceTerms::fixed_arrays() const {
  if (!masked_) return 0;
  const Model& model = problem_.model();
  return static_cast<std::size_t>(
      std::ranges::count_if(model.arrays, [&](const ParameterArray& array) {
        const auto scalars =
            std::span(model.constant).subspan(array.offset, array.blocks * array.width);
        return std::ranges::all_of(scalars, [](std::uint8_t c) { return c != 0; });
      }));
}

}  // namespace topograd::runtime::vulkan
