// Orders of models, and what a later state of a model changes.
#include "device_model.hpp"

#include "../../../ir/batch/unset_vector.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

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

}  // namespace topograd::runtime::vulkan
