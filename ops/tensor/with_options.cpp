// Runs tensor operations with options: on a given device, with statistics.
#include "with_options.hpp"

#include "../run/inspection.hpp"
#include "../run/run.hpp"

#include <optional>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

/// Combines the statistics of several operations.
ExecutionStats stats_of_all(const std::vector<RanOperation>& ran) {
  ExecutionStats out;
  double longest = -1;
  runtime::hybrid::Terms times;
  std::uint64_t up = 0, down = 0, hits = 0, checked = 0;
  std::string fallback;
  for (const RanOperation& one : ran) {
    const ExecutionStats& s = one.stats;
    if (s.times.work() > longest) {
      longest = s.times.work();
      out = s;
    }
    times.queue += s.times.queue;
    times.upload += s.times.upload;
    times.submit += s.times.submit;
    times.kernel += s.times.kernel;
    times.read_back += s.times.read_back;
    up += s.bytes_up;
    down += s.bytes_down;
    hits += s.cache_hits;
    checked += s.checked;
    if (fallback.empty()) fallback = s.fallback;
  }
  out.times = times;
  out.bytes_up = up;
  out.bytes_down = down;
  out.cache_hits = hits;
  out.checked = checked;
  out.fallback = fallback;
  return out;
}

}  // namespace

struct detail::OptionsScope::Scopes {
  std::optional<ops::OnDevice> device;
  std::optional<Inspect> inspect;
  RecordOperations* outer = nullptr;
  std::optional<RecordOperations> record;
};

detail::OptionsScope::OptionsScope(const OpOptions& options)
    : options_(options), scopes_(std::make_unique<Scopes>()) {
  if (options.device) scopes_->device.emplace(*options.device);
  if (options.cross_check || options.values != nullptr)
    scopes_->inspect.emplace(Inspection{options.cross_check, options.values});
  if (options.stats == nullptr) return;
  scopes_->outer = recording();
  scopes_->record.emplace();
}

detail::OptionsScope::~OptionsScope() = default;

void detail::OptionsScope::finish() {
  if (options_.stats == nullptr) return;
  const std::vector<RanOperation>& ran = scopes_->record->all();
  *options_.stats = stats_of_all(ran);
  if (scopes_->outer == nullptr) return;
  for (const RanOperation& one : ran) scopes_->outer->add(one);
}

const Tensor& Tensor::evaluate(const OpOptions& options) const {
  with_options(options, [this] { evaluate(); });
  return *this;
}

void Tensor::backward(const OpOptions& options) const {
  with_options(options, [this] { backward(); });
}

void Tensor::backward(const Tensor& seed, const OpOptions& options) const {
  with_options(options, [&] { backward(seed); });
}

}  // namespace topograd::ops
