// Loading at the start, and merging with what others have written meanwhile.
#include "stored_knowledge.hpp"

#include <optional>
#include <utility>

namespace topograd::runtime::hybrid {

StoredKnowledge::StoredKnowledge(const HybridOptions& options, Scheduler& scheduler,
                                 Telemetry& telemetry)
    : options_(options), scheduler_(scheduler), telemetry_(telemetry) {
  if (options_.state.empty() || options_.state == "none") return;
  file_ = std::make_unique<KnowledgeFile>(options_.state);
  std::optional<Knowledge> known = file_->load();
  if (known) {
    known_ = std::move(*known);
    scheduler_.merge(known_);
    telemetry_.state_loaded(true);
  } else if (file_->rejected() > 0 || !file_->disabled().empty()) {
    telemetry_.state_loaded(false);
  }
}

std::optional<std::string> StoredKnowledge::add(const ExecutorDevice& device) {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> other;
  const auto before = known_.drivers.find(device.name());
  if (before != known_.drivers.end() && device.available() && before->second != device.driver()) {
    other = before->second;
    forget(known_, device.name());
  }
  scheduler_.merge(known_);
  return other;
}

bool StoredKnowledge::save(const DeviceList& devices) {
  if (!file_) return false;
  Knowledge knowledge = scheduler_.knowledge();
  for (const ExecutorDevice* one : devices.all())
    if (!one->driver().empty()) knowledge.drivers[one->name()] = one->driver();
  // Merges data that others have learned meanwhile, including other executors of this process, and
  // data of devices that are not present now.
  if (const std::optional<Knowledge> now = file_->load())
    merge(knowledge, *now, options_.max_kernels);
  {
    const std::lock_guard lock(mutex_);
    merge(knowledge, known_, options_.max_kernels);
  }
  const bool stored = file_->store(std::move(knowledge));
  telemetry_.state_written(stored);
  return stored;
}

}  // namespace topograd::runtime::hybrid
