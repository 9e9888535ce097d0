// The Device and Submission handles.
#include <topograd/runtime/vulkan/device.hpp>

#include <topograd/runtime/vulkan/core.hpp>

#include <utility>

namespace topograd::runtime::vulkan {

Counters Counters::operator-(const Counters& earlier) const {
  return {.dispatches = dispatches - earlier.dispatches,
          .submissions = submissions - earlier.submissions,
          .uploads = uploads - earlier.uploads,
          .bytes_up = bytes_up - earlier.bytes_up,
          .readbacks = readbacks - earlier.readbacks,
          .bytes_down = bytes_down - earlier.bytes_down,
          .pipelines_created = pipelines_created - earlier.pipelines_created,
          .pipeline_cache_hits = pipeline_cache_hits - earlier.pipeline_cache_hits,
          .driver_allocations = driver_allocations - earlier.driver_allocations,
          .pipeline_ms = pipeline_ms - earlier.pipeline_ms};
}

Submission::Submission(std::shared_ptr<Core> core, std::uint64_t value)
    : core_(std::move(core)), value_(value) {}

void Submission::wait(double timeout_seconds) const {
  if (!core_) return;
  core_->queue.wait(value_, timeout_seconds);
}

bool Submission::done() const { return !core_ || core_->queue.completed() >= value_; }

Device::Device(std::shared_ptr<Core> core) : core_(std::move(core)) {}

const DeviceInfo& Device::info() const { return core_->info; }
const DeviceOptions& Device::options() const { return core_->options; }
bool Device::lost() const { return core_->driver.lost(); }

Buffer Device::buffer(std::uint64_t size, MemoryKind kind, std::string_view name) {
  return {core_, core_->memory.take(size, kind, name)};
}

void Device::trim() {
  core_->queue.reap(core_->queue.completed());
  core_->memory.trim();
}

MemoryStatistics Device::memory() const { return core_->memory.statistics(); }
std::map<std::string, std::uint64_t> Device::memory_by_name() const {
  return core_->memory.bytes_by_name();
}

Kernel Device::kernel(const KernelDesc& desc) { return {core_, core_->kernels.find_or_make(desc)}; }

CommandList Device::command_list(std::string_view name) { return {core_, make_list(*core_, name)}; }

Submission Device::submit(const CommandList& list) {
  const CommandList* const one = &list;
  return submit(std::span(&one, 1));
}

Submission Device::submit(std::span<const CommandList* const> lists) {
  std::vector<Work> works;
  for (const CommandList* list : lists) {
    if (!*list || list->state()->core != core_.get()) {
      throw Error(ErrorCode::InvalidArgument, "submit: expected a command list of this device");
    }
  }
  core_->driver.check_lost();
  for (const CommandList* list : lists) {
    ListState& state = *list->state();
    end_list(state);
    works.push_back(
        {*state.commands, list->state(), state.buffers, std::exchange(state.first_runs, 0)});
  }
  const std::uint64_t value = core_->staging.submit(works);
  core_->queue.reap(core_->queue.completed());
  LiveCounters& counters = core_->counters;
  for (const CommandList* list : lists) {
    ListState& state = *list->state();
    state.last_value = value;
    counters.dispatches += state.dispatches;
    counters.uploads += state.uploads;
    counters.bytes_up += state.bytes_up;
    counters.readbacks += state.readbacks;
    counters.bytes_down += state.bytes_down;
  }
  return {core_, value};
}

void Device::wait_idle() { core_->queue.wait(core_->staging.submit({})); }

void Device::upload(const Buffer& buffer, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Upload piece{&buffer, offset, bytes};
  upload(std::span(&piece, 1));
}

void Device::upload(std::span<const Upload> uploads) {
  for (const Upload& piece : uploads) core_->staging.upload(piece);
  ++core_->counters.uploads;
}

void Device::download(const Buffer& buffer, std::uint64_t offset, std::span<std::byte> bytes) {
  const Download piece{&buffer, offset, bytes};
  download(std::span(&piece, 1));
}

void Device::download(std::span<const Download> downloads) {
  core_->staging.download(downloads);
  ++core_->counters.readbacks;
}

Counters Device::counters() const {
  const LiveCounters& live = core_->counters;
  return {.dispatches = live.dispatches,
          .submissions = live.submissions,
          .uploads = live.uploads,
          .bytes_up = live.bytes_up,
          .readbacks = live.readbacks,
          .bytes_down = live.bytes_down,
          .pipelines_created = live.pipelines_created,
          .pipeline_cache_hits = live.pipeline_cache_hits,
          .driver_allocations = core_->memory.statistics().driver_allocations,
          .pipeline_ms = static_cast<double>(live.pipeline_ns) * 1e-6};
}

DiskCache& Device::disk_cache() { return core_->disk_cache; }
void Device::save_pipeline_cache() { core_->kernels.save(); }

void Device::inject_fault(std::string_view call, std::uint64_t after, std::int32_t result,
                          std::uint32_t times) {
  core_->driver.inject(call, after, static_cast<vk::Result>(result), times);
}

std::uint64_t Device::driver_calls() const { return core_->driver.calls(); }

}  // namespace topograd::runtime::vulkan
