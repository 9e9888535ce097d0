// Recording of sums over all terms, by block or by atomics, with values beside them or without.
#include "term_sums.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "../recording/recorder.hpp"

namespace topograd::runtime::vulkan {
namespace {

constexpr int kWarmUps = 2, kSamples = 5;

/// Bytes; pieces of a buffer begin at multiples of it, where buffers can be bound.
constexpr std::uint64_t kZerosAligned = 2048;

/// A set sums diagonal blocks. If it sums by scalar, or if blocks are too wide, it sums
/// only their diagonals.
Pass blocks_pass(const GatherSet& set, const std::vector<BlockRange>& blocks) {
  const bool whole = set.array() != kScalars && blocks[set.array()].width == set.block_width();
  return whole ? Pass::blocks : Pass::diagonal;
}

bool sums_diagonals(const GatherSet& set, const std::vector<BlockRange>& blocks) {
  return set.block_width() == 1 || blocks_pass(set, blocks) == Pass::diagonal;
}

/// For a list that declares: what it would write is forgotten.
std::optional<ValuePass> copy_of(const ValuePass* values) {
  return values != nullptr ? std::optional(*values) : std::nullopt;
}
ValuePass* pointer_to(std::optional<ValuePass>& values) { return values ? &*values : nullptr; }

}  // namespace

void TermSums::record_used(CommandList& list) {
  for (const Pass pass : used_) {
    if (has_values(pass)) {
      record_values(list, pass, v_.x, v_.result, codegen::Scalar::user);
    } else {
      record(list, pass, terms_.operands(v_.x, &v_.direction), v_.result);
    }
  }
}

bool TermSums::may_store_diagonals(std::size_t k) const {
  if (choices_.by_atomics() && !is_wide(terms_[k]->shape().groups)) return false;
  return std::ranges::all_of(terms_[k]->gather_sets(), [&](const auto& set) {
    return sums_diagonals(*set, v_.array_blocks);
  });
}

bool TermSums::settle(std::size_t k, Pass pass) {
  const bool there = static_cast<bool>(scratch(k));
  const bool measured = choices_.settle(k, pass, [&](bool store) {
    return time_choice([&](CommandList& list) {
      record_batch_sum(list, k, pass, terms_.operands(v_.x, &v_.direction), store);
    });
  });
  if (measured && !there && !choices_.stores_terms(k, pass)) scratch(k) = Buffer();
  return measured;
}

bool TermSums::settle_values(std::size_t k, Pass pass) {
  const bool sums = !choices_.by_atomics() && settle(k, Pass::gradient);
  if (!choices_.one_pass(k, pass)) return sums;
  const bool stores = choices_.stores_terms(k, Pass::gradient);
  const auto time = [&](bool apart) {
    return time_choice([&](CommandList& list) {
      ValuePass values{.pass = pass, .sinks = {.costs = &value_sums(list)}};
      if (apart) record_apart(list, k, values, v_.x);
      record_batch_sum(list, k, Pass::gradient, terms_.operands(v_.x), stores, &values);
    });
  };
  return choices_.settle(k, pass, time) || sums;
}

double TermSums::time_choice(const Recorder::Record& choice) {
  const auto timed = [&](CommandList& list) { stamped(list, [&] { choice(list); }); };
  Recorder::make(timed);
  return recorder_.time_list(recorder_.make_list("choice", timed), kWarmUps, kSamples).device_us;
}

void TermSums::record(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                      ValuePass* values) {
  if (!choices_.by_atomics()) return record_gather(list, pass, operands, out, values);
  record_zeros(list, out, problem_.model().scalars);
  list.barrier();
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    (void)choices_.open(k, pass);  // it is not, but plans list it from here on
    ValueSinks* const sinks = sinks_of(list, k, values);
    terms_[k]->record_scatter(list, sinks ? values->pass : pass, operands, out, sinks);
  }
  list.barrier();
}

void TermSums::record_zeros(CommandList& list, const Buffer& out, std::uint64_t count) {
  const std::uint64_t bytes = context_.element_bytes();
  if (!list.in_conditional()) return list.fill(out, 0, count * bytes, 0);
  const std::uint64_t most = std::max(context_.max_range() / kZerosAligned, std::uint64_t{1});
  const std::uint64_t piece = most * kZerosAligned / bytes;
  for (std::uint64_t first = 0; first < count; first += piece) {
    const auto n = static_cast<std::uint32_t>(std::min(piece, count - first));
    v_.ops->record(list, kernel::fill{{.result = {out, first * bytes, n * bytes}},
                                      {.count = n, .value = codegen::Scalar::zero}});
  }
}

std::vector<GatherUse> TermSums::gather_order(Pass pass) {
  std::set<std::uint32_t> covered;
  std::vector<GatherUse> order;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      // In a part, whether a set covers all blocks depends on its ghosts, and so would the order.
      const bool covers = !context_.is_part() && set->array() != kScalars && set->covers_all() &&
                          covered.insert(set->array()).second;
      order.insert(covers ? order.begin() : order.end(), {k, set.get(), covers});
    }
  }
  return order;
}

void TermSums::record_gather(CommandList& list, Pass pass, const Operands& operands,
                             const Buffer& out, ValuePass* values) {
  bool settled = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    if (list.declared() == nullptr) {
      settled = settle(k, pass) || settled;
    } else if (choices_.open(k, pass)) {
      for (const bool store : {true, false})
        record_batch_sum(list, k, pass, operands, store, values);
    }
  }
  if (settled) {
    Recorder::make([&, same = copy_of(values)](CommandList& declaring) mutable {
      record_gather(declaring, pass, operands, out, pointer_to(same));
    });
  }
  const std::vector<GatherUse> order = gather_order(pass);
  const auto covered = std::ranges::count_if(order, &GatherUse::covers);
  // Scalars that a mask leaves out are 0 from the start and stay so.
  if (static_cast<std::size_t>(covered) + terms_.fixed_arrays() < problem_.model().arrays.size()) {
    record_zeros(list, out, problem_.model().scalars);
    list.barrier();
  }
  std::vector<bool> stored(terms_.size(), false);
  bool any_stored = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass) || !choices_.stores_terms(k, pass)) continue;
    record_terms(list, k, pass, operands, values);
    stored[k] = any_stored = true;
  }
  if (any_stored) list.barrier();
  Hazards hazards(list);
  for (const auto& [k, set, covers] : order) {
    const SumTarget target{.out = &out, .first = set->x_first(), .overwrite = covers};
    hazards.order(sums_of(set->array()));
    if (stored[k]) {
      set->record_stored(list, pass, scratch(k), terms_[k]->columns().stride(), operands, target);
    } else {
      record_set(list, k, *set, pass, operands, target, values);
    }
  }
  list.barrier();
}

void TermSums::record_set(CommandList& list, std::size_t k, GatherSet& set, Pass pass,
                          const Operands& operands, const SumTarget& target, ValuePass* values) {
  const bool gives = values != nullptr && terms_[k]->value_set(values->pass) == &set;
  ValueSinks* const sinks = gives ? sinks_of(list, k, values) : nullptr;
  context_.term_dispatches +=
      set.record(list, sinks ? values->pass : pass, operands, target, sinks);
}

void TermSums::record_blocks(CommandList& list, const Operands& operands) {
  const auto add = [&](std::size_t k, GatherSet& set, bool stored) {
    SumTarget target{.out = &v_.packed, .positions = &v_.diagonal_positions};
    if (set.array() != kScalars)
      target = {.out = &v_.packed, .first = v_.array_blocks[set.array()].blocks_first};
    if (!stored) return void(set.record(list, blocks_pass(set, v_.array_blocks), operands, target));
    set.record_stored(list, Pass::diagonal, scratch(k), terms_[k]->columns().stride(), operands,
                      target);
  };
  record_zeros(list, v_.packed, std::max<std::uint64_t>(v_.packed_blocks, 1));
  std::vector<bool> stored(terms_.size(), false);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::blocks) || !may_store_diagonals(k)) continue;
    if (list.declared() == nullptr) {
      settle(k, Pass::diagonal);
    } else if (choices_.open(k, Pass::diagonal)) {
      record_batch_sum(list, k, Pass::diagonal, operands, true);
      continue;  // and the other way below
    }
    if (!choices_.stores_terms(k, Pass::diagonal)) continue;
    record_terms(list, k, Pass::diagonal, operands);
    stored[k] = true;
  }
  list.barrier();
  Hazards hazards(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, Pass::blocks)) continue;
    for (auto& set : terms_[k]->gather_sets()) {
      hazards.order(sums_of(set->array()));
      add(k, *set, stored[k]);
    }
  }
  list.barrier();
}

/// Sums of one batch into scratch.
void TermSums::record_batch_sum(CommandList& list, std::size_t k, Pass pass, const Operands& with,
                                bool store, ValuePass* values) {
  if (store) {
    record_terms(list, k, pass, with, values);
    list.barrier();
  }
  for (auto& set : terms_[k]->gather_sets()) {
    const SumTarget target{.out = &v_.product, .first = set->x_first(), .overwrite = true};
    if (store) {
      set->record_stored(list, pass, scratch(k), terms_[k]->columns().stride(), with, target);
    } else {
      record_set(list, k, *set, pass, with, target, values);
    }
    list.barrier();
  }
}

void TermSums::record_terms(CommandList& list, std::size_t k, Pass pass, const Operands& with,
                            ValuePass* values) {
  if (!scratch(k) && list.declared() == nullptr)
    scratch(k) = make_numbers(context_, terms_[k]->stored_size(pass), "terms");
  ValueSinks* const sinks = sinks_of(list, k, values);
  terms_[k]->record_store(list, sinks ? values->pass : pass, with, scratch(k), sinks);
}

void TermSums::record_values(CommandList& list, Pass pass, const Buffer& x, const Buffer& out,
                             codegen::Scalar cost) {
  const bool declares = list.declared() != nullptr;
  bool settled = false;
  for (std::size_t k = 0; k < terms_.size() && !declares; ++k)
    settled = (terms_.takes_part(k, pass) && settle_values(k, pass)) || settled;
  const auto same = [&](CommandList& declaring) { record_values(declaring, pass, x, out, cost); };
  if (settled) Recorder::make(same);
  ValuePass values{.pass = pass, .sinks = {.costs = &value_sums(list)}};
  if (terms_.have_guards()) terms_.record_no_failures(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    if (!choices_.one_pass(k, pass) || (declares && choices_.undecided(k, pass)))
      record_apart(list, k, values, x);
  }
  record(list, Pass::gradient, terms_.operands(x), out, &values);
  const std::uint32_t sums = values.sinks.next;
  v_.ops->sum(list, *values.sinks.costs, 0, sums, sums, cost, 1);
  list.barrier();
}

/// Records the values of a term by kernels of their own, apart from its gradient.
void TermSums::record_apart(CommandList& list, std::size_t k, ValuePass& values, const Buffer& x) {
  Operands with = terms_.operands(x);
  with.failures = terms_.failures();
  values.sinks.next += terms_[k]->record_cost(list, with, *values.sinks.costs, values.sinks.next);
  if (values.pass == Pass::values && terms_.takes_part(k, Pass::residual))
    terms_[k]->record_store(list, Pass::residual, terms_.operands(x),
                            rows_.result(list, Pass::residual, k));
}

ValueSinks* TermSums::sinks_of(const CommandList& list, std::size_t k, ValuePass* values) {
  if (values == nullptr || !choices_.one_pass(k, values->pass)) return nullptr;
  const bool rows = values->pass == Pass::values && terms_.takes_part(k, Pass::residual);
  values->sinks.rows = rows ? &rows_.result(list, Pass::residual, k) : nullptr;
  return &values->sinks;
}

const Buffer& TermSums::value_sums(const CommandList& list) {
  if (list.declared() != nullptr) return no_buffer();
  if (!*value_sums_) *value_sums_ = make_partials(context_, terms_.most_costs());
  return *value_sums_;
}

Buffer& TermSums::scratch(std::size_t k) {
  stored_->resize(terms_.size());
  return (*stored_)[k];
}

void PointVectors::residuals(std::span<double> out) {
  rows_.read(Pass::residual, terms_.operands(v_.x), out);
}

void PointVectors::jvp(std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  rows_.read(Pass::jvp, terms_.operands(v_.x, &v_.direction), out);
}

void PointVectors::product(Pass pass, std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  sum(pass, out);
}

void PointVectors::sum(Pass pass, std::span<double> out) {
  sums_.use(pass);
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    sums_.record(list, pass, terms_.operands(v_.x, &v_.direction), v_.result);
    readback_->record(context_, list, v_.result);
  });
  problem_.read(*readback_, recorder_.last(), v_.result, out);
}

}  // namespace topograd::runtime::vulkan
