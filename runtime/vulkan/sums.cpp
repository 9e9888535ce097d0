// Passes over all terms of a model: rows, costs, and sums by owner.
#include "recording/hazards.hpp"
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace topograd::runtime::vulkan {
namespace {

/// Bytes; pieces of a buffer begin at multiples of it, where buffers can be bound.
constexpr std::uint64_t kZerosAligned = 2048;

/// What a set sums of the diagonal blocks: these, or where its owners are parts of blocks, or these
/// are too wide, their diagonals.
Pass blocks_pass(const GatherSet& set, const std::vector<BlockRange>& blocks) {
  const bool whole = set.array() != kScalars && blocks[set.array()].width == set.owner_width();
  return whole ? Pass::blocks : Pass::diagonal;
}

bool sums_diagonals(const GatherSet& set, const std::vector<BlockRange>& blocks) {
  return set.owner_width() == 1 || blocks_pass(set, blocks) == Pass::diagonal;
}

}  // namespace

bool VulkanEngine::by_atomics() const {
  switch (context_.rung.accumulation) {
    case Accumulation::gather_recompute:
    case Accumulation::gather_store: return false;
    case Accumulation::atomic_float:
    case Accumulation::atomic_cas: return true;
  }
  return false;
}

void VulkanEngine::record_used_sums(CommandList& list) {
  for (const Pass pass : used_sums_) {
    if (has_values(pass)) {
      record_values(list, pass, v_.x, v_.result, Scalar::user);
    } else {
      record_sum(list, pass, terms_.operands(v_.x, &v_.direction), v_.result);
    }
  }
}

void VulkanEngine::record_sum(CommandList& list, Pass pass, const Operands& operands,
                              const Buffer& out, ValuePass* values) {
  if (!by_atomics()) return record_gather(list, pass, operands, out, values);
  record_zeros(list, out, problem_.model().scalars);
  list.barrier();
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    decision(k, pass);  // for the plan record
    ValueSinks* const sinks = sinks_of(k, values);
    terms_[k]->record_scatter(list, sinks ? values->pass : pass, operands, out, sinks);
  }
  list.barrier();
}

void VulkanEngine::record_zeros(CommandList& list, const Buffer& out, std::uint64_t count) {
  const std::uint64_t bytes = context_.element_bytes();
  if (!list.gated()) return list.fill(out, 0, count * bytes, 0);
  const std::uint64_t most = std::max(context_.max_range() / kZerosAligned, std::uint64_t{1});
  const std::uint64_t piece = most * kZerosAligned / bytes;
  for (std::uint64_t first = 0; first < count; first += piece) {
    const auto n = static_cast<std::uint32_t>(std::min(piece, count - first));
    BindingTable table;
    table.set(codegen::BufferRole::result, out, first * bytes, n * bytes);
    v_.ops->record(
        list, {.op = VectorOp::fill, .constants = {.count = n, .a = codegen::slot(Scalar::zero)}},
        table);
  }
}

std::vector<GatherUse> VulkanEngine::gather_order(Pass pass) {
  std::set<std::uint32_t> covered;
  std::vector<GatherUse> order;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      const bool covers =
          set->array() != kScalars && set->covers_all() && covered.insert(set->array()).second;
      order.insert(covers ? order.begin() : order.end(), {k, set.get(), covers});
    }
  }
  return order;
}

void VulkanEngine::record_gather(CommandList& list, Pass pass, const Operands& operands,
                                 const Buffer& out, ValuePass* values) {
  const std::vector<GatherUse> order = gather_order(pass);
  const auto covered = std::ranges::count_if(order, &GatherUse::covers);
  // What a mask leaves out is 0 from the start and stays so.
  if (static_cast<std::size_t>(covered) + terms_.held_arrays() < problem_.model().arrays.size()) {
    record_zeros(list, out, problem_.model().scalars);
    list.barrier();
  }
  std::vector<bool> stored(terms_.size(), false);
  bool any_stored = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    if (context_.collecting && decision(k, pass).open) {  // either may be chosen
      record_batch_sum(list, k, pass, operands, true, values);
      record_batch_sum(list, k, pass, operands, false, values);
      continue;
    }
    if (!stores_terms(k, pass)) continue;
    record_terms(list, k, pass, operands, values);
    stored[k] = any_stored = true;
  }
  if (any_stored) list.barrier();
  Hazards hazards(list);
  for (const auto& [k, set, covers] : order) {
    const SumTarget target{.out = &out, .first = set->x_first(), .overwrite = covers};
    hazards.write(set->array());
    if (stored[k]) {
      set->record_stored(list, pass, sums_->stored[k], terms_[k]->store_stride(), operands, target);
    } else {
      record_set(list, k, *set, pass, operands, target, values);
    }
  }
  list.barrier();
}

void VulkanEngine::record_set(CommandList& list, std::size_t k, GatherSet& set, Pass pass,
                              const Operands& operands, const SumTarget& target,
                              ValuePass* values) {
  const bool gives = values != nullptr && terms_[k]->value_set(values->pass) == &set;
  ValueSinks* const sinks = gives ? sinks_of(k, values) : nullptr;
  context_.term_dispatches +=
      set.record(list, sinks ? values->pass : pass, operands, target, sinks);
}

void VulkanEngine::record_stored_jtjp(CommandList& list, const Operands& operands,
                                      const Buffer& out) {
  list.fill(out, 0, problem_.model().scalars * context_.element_bytes(), 0);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::jtjp)) continue;
    terms_[k]->record_stored_jtjp(list, sums_->jacobians[k], operands, sums_->stored[k]);
  }
  list.barrier();
  Hazards hazards(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::jtjp)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      hazards.write(set->array());
      set->record_stored(list, Pass::jtjp, sums_->stored[k], terms_[k]->store_stride(), operands,
                         {.out = &out, .first = set->x_first()});
    }
  }
  list.barrier();
}

void VulkanEngine::record_product(CommandList& list, const Operands& operands, const Buffer& out) {
  if (sums_->matrix) return sums_->matrix->record_multiply(list, *v_.ops, *operands.direction, out);
  if (use_stored_jacobian()) return record_stored_jtjp(list, operands, out);
  record_sum(list, Pass::jtjp, operands, out);
}

void VulkanEngine::record_jacobians(CommandList& list) {
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::stored_jacobian)) continue;
    terms_[k]->record_store(list, Pass::stored_jacobian, terms_.operands(v_.x),
                            sums_->jacobians[k]);
  }
}

void VulkanEngine::record_blocks(CommandList& list, const Operands& operands) {
  const auto stored_terms = [&](std::size_t k) -> const Buffer& {
    return context_.collecting ? v_.result : sums_->stored[k];
  };
  const auto record = [&](std::size_t k, GatherSet& set, bool stored) {
    SumTarget target{.out = &v_.packed, .positions = &v_.diagonal_positions};
    if (set.array() != kScalars)
      target = {.out = &v_.packed, .first = v_.array_blocks[set.array()].blocks_first};
    if (!stored) return void(set.record(list, blocks_pass(set, v_.array_blocks), operands, target));
    set.record_stored(list, Pass::diagonal, stored_terms(k), terms_[k]->store_stride(), operands,
                      target);
  };
  record_zeros(list, v_.packed, std::max<std::uint64_t>(v_.packed_blocks, 1));
  std::vector<bool> stored(terms_.size(), false);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::blocks) || (by_atomics() && !terms_[k]->is_wide())) continue;
    auto& sets = terms_[k]->gather_sets();
    const auto diagonals = [&](auto& set) { return sums_diagonals(*set, v_.array_blocks); };
    if (!std::ranges::all_of(sets, diagonals)) continue;
    if (context_.collecting && decision(k, Pass::diagonal).open) {  // either may be chosen
      for (auto& set : sets) record(k, *set, false);
    } else if (!stores_terms(k, Pass::diagonal)) {
      continue;
    }
    record_terms(list, k, Pass::diagonal, operands);
    stored[k] = true;
  }
  list.barrier();
  Hazards hazards(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::blocks)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      hazards.write(set->array());
      record(k, *set, stored[k]);
    }
  }
  list.barrier();
}

}  // namespace topograd::runtime::vulkan
