// Orders of models and what a later state changes; uniforms, costs, counts of failed guards.
#include "device_terms.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "../../../ir/batch/unset_vector.hpp"

namespace topograd::runtime::vulkan {
namespace {

bool same_manifolds(const Manifolds* a, const Manifolds* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace

void DeviceModel::arrange() {
  const auto start = std::chrono::steady_clock::now();
  order_ = context_.is_part() ? ModelOrder{} : find_order(source_);
  batches_.clear();
  if (order_.identity()) {
    model_ = source_;
  } else {
    OrderedModel ordered = reorder(source_, order_);
    model_ = std::move(ordered.model);
    batches_ = std::move(ordered.batches);
  }
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  seen_.clear();
  for (const Term& term : source_.terms)
    seen_.push_back({term.batch->structure_version(), term.batch->data_version(),
                     term.batch->own_data_version(), term.batch->has_resident()});
}

ModelChange DeviceModel::follow(const Model& next) {
  ModelChange change;
  change.unknowns = next.scalars != source_.scalars || next.arrays.size() != source_.arrays.size();
  change.structure = next.terms.size() != source_.terms.size() || change.unknowns ||
                     next.uniforms.size() != source_.uniforms.size();
  for (std::size_t k = 0; !change.structure && k < next.terms.size(); ++k) {
    const ir::Batch& batch = *next.terms[k].batch;
    change.structure = &batch != source_.terms[k].batch ||
                       next.terms[k].loss != source_.terms[k].loss ||
                       batch.structure_version() != seen_[k].structure ||
                       batch.has_resident() != seen_[k].resident;
  }
  change.structure = change.structure || next.constant != source_.constant ||
                     next.lower.empty() != source_.lower.empty() ||
                     !same_manifolds(next.manifolds.get(), source_.manifolds.get());
  change.uniforms = next.uniforms != source_.uniforms;
  source_ = next;
  if (change.structure) return change;
  model_.uniforms = source_.uniforms;
  if (source_.lower.empty()) return change;
  std::vector<double> lower = ordered(source_.lower), upper = ordered(source_.upper);
  change.bounds = lower != model_.lower || upper != model_.upper;
  if (!change.bounds) return change;
  model_.lower = std::move(lower);
  model_.upper = std::move(upper);
  return change;
}

bool DeviceModel::data_changed(std::size_t term) {
  const std::uint64_t now = source_.terms[term].batch->data_version();
  return std::exchange(seen_[term].data, now) != now;
}

bool DeviceModel::own_data_changed(std::size_t term) {
  const std::uint64_t now = source_.terms[term].batch->own_data_version();
  return std::exchange(seen_[term].own_data, now) != now;
}

void DeviceModel::reorder_data(std::size_t term, bool own) {
  if (order_.identity()) return;
  refresh_data(*source_.terms[term].batch, order_.rows[term], *batches_[term], own);
}

std::vector<double> DeviceModel::ordered(std::span<const double> values) const {
  if (order_.identity()) return {values.begin(), values.end()};
  std::vector<double> out(values.size());
  order_.apply(values, out);
  return out;
}

void DeviceModel::undo(std::span<const double> ordered, std::span<double> values) const {
  if (order_.identity()) {
    std::copy(ordered.begin(), ordered.end(), values.begin());
  } else {
    order_.undo(ordered, values);
  }
}

void DeviceModel::write(const Buffer& buffer, std::span<const double> values) const {
  if (order_.identity()) return write_numbers(context_, buffer, values);
  ir::UnsetVector<double> numbers(values.size());
  order_.apply(values, numbers);
  write_numbers(context_, buffer, numbers);
}

void DeviceModel::read(const Buffer& buffer, std::span<double> values) const {
  if (order_.identity()) return read_numbers(context_, buffer, values);
  ir::UnsetVector<double> numbers(values.size());
  read_numbers(context_, buffer, numbers);
  order_.undo(numbers, values);
}

void DeviceModel::read(const Readback& readback, const Submission& after, const Buffer& source,
                       std::span<double> values) const {
  if (order_.identity()) return readback.read(context_, after, source, context_.wide(), values);
  ir::UnsetVector<double> numbers(values.size());
  readback.read(context_, after, source, context_.wide(), numbers);
  order_.undo(numbers, values);
}

void DeviceModel::read_point(const Buffer& buffer, std::span<double> x) const {
  read(buffer, x);
  keep_in_box(x);
}

void DeviceModel::read_staged(const Buffer& staged, std::span<double> x) const {
  const std::byte* bytes = staged.mapped();
  std::vector<double> point(x.size());
  if (context_.wide()) {
    std::memcpy(point.data(), bytes, x.size_bytes());
  } else {
    std::vector<float> narrow(x.size());
    std::memcpy(narrow.data(), bytes, narrow.size() * sizeof(float));
    std::copy(narrow.begin(), narrow.end(), point.begin());
  }
  undo(point, x);
  keep_in_box(x);
}

void DeviceModel::keep_in_box(std::span<double> x) const {
  if (source_.lower.empty() || context_.wide()) return;
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (x[k] < source_.lower[k]) x[k] = source_.lower[k];
    if (x[k] > source_.upper[k]) x[k] = source_.upper[k];
  }
}

std::uint64_t DeviceModel::order_bytes() const {
  std::uint64_t bytes = order_.position.capacity() * sizeof(std::uint32_t);
  for (const auto& rows : order_.rows) bytes += rows.capacity() * sizeof(std::uint32_t);
  return bytes;
}

std::uint64_t DeviceModel::column_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& batch : batches_) bytes += batch ? batch->bytes() : 0;
  return bytes;
}

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
