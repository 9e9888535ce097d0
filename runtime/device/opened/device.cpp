// The Device and Submission handles.
#include "../device.hpp"

#include "../../../ir/machine/foreign_call.hpp"
#include "../../profile.hpp"
#include "core.hpp"

#include <cstring>
#include <utility>

namespace topograd::runtime::vulkan {

Counters Counters::operator-(const Counters& earlier) const {
  Counters span = *this;
  span.dispatches -= earlier.dispatches;
  span.submissions -= earlier.submissions;
  span.uploads -= earlier.uploads;
  span.bytes_up -= earlier.bytes_up;
  span.readbacks -= earlier.readbacks;
  span.bytes_down -= earlier.bytes_down;
  span.pipelines_created -= earlier.pipelines_created;
  span.pipeline_cache_hits -= earlier.pipeline_cache_hits;
  span.driver_allocations -= earlier.driver_allocations;
  span.pipeline_ms -= earlier.pipeline_ms;
  return span;
}

void LiveTransfers::add(const Transfers& more) {
  dispatches_ += more.dispatches;
  submissions_ += more.submissions;
  uploads_ += more.uploads;
  bytes_up_ += more.bytes_up;
  readbacks_ += more.readbacks;
  bytes_down_ += more.bytes_down;
  if (whole_ != nullptr) whole_->add(more);
}

Transfers LiveTransfers::read() const {
  return {.dispatches = dispatches_,
          .submissions = submissions_,
          .uploads = uploads_,
          .bytes_up = bytes_up_,
          .readbacks = readbacks_,
          .bytes_down = bytes_down_};
}

namespace {

/// The times of a submission's lists, for the profile that this thread uses.
bool read_times(Core& core, Profile& profile, Profile::Clock::time_point submitted,
                std::span<const StampsRead> reads) {
  const std::uint64_t mask =
      core.timestamp_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << core.timestamp_bits) - 1;
  const Profile::Ticks clock{
      .device = &core, .ns = core.info.limits.timestamp_period_ns, .mask = mask};
  for (const StampsRead& read : reads) {
    ProfileStamps& stamps = *read.of->profile;
    if (stamps.rows_of != profile.id()) {
      stamps.rows.clear();
      for (const ProfileStamps::Work& work : stamps.works)
        stamps.rows.push_back(profile.kernel_row(work.name, work.topology));
      stamps.rows_of = profile.id();
    }
    std::vector<std::uint64_t> ticks(stamps.count);
    std::memcpy(ticks.data(), read.ticks->mapped, ticks.size() * sizeof(std::uint64_t));
    std::vector<Profile::Stamped> commands;
    commands.reserve(stamps.commands.size());
    for (std::size_t k = 0; k < stamps.commands.size(); ++k) {
      const ProfileStamps::Command& command = stamps.commands[k];
      commands.push_back({stamps.rows[command.work], command.bytes, ticks[k + 1]});
    }
    profile.ran(clock, submitted, ticks[0], commands);
  }
  return true;
}

}  // namespace

Submission::Submission(std::shared_ptr<Core> core, std::uint64_t value)
    : core_(std::move(core)), value_(value) {}

void Submission::wait(double timeout_seconds) const {
  if (!core_) return;
  const TimedPass timed(TimedWork::host, "wait");
  core_->queue.wait(value_, timeout_seconds);
  if (Profile* const profile = Profile::watching()) profile->settle(false);
}

bool Submission::done() const { return !core_ || core_->queue.completed() >= value_; }

// Calls that take a lock get permission first: the end of the process waits for them, and no thread
// blocks for ever with a lock that destructors at exit need.

Device::Device(std::shared_ptr<Core> core)
    : core_(std::move(core)), transfers_(std::make_shared<LiveTransfers>(&core_->transfers)) {}

const DeviceInfo& Device::info() const { return core_->info; }
const DeviceOptions& Device::options() const { return core_->options; }
bool Device::lost() const { return core_->driver.lost(); }

Buffer Device::buffer(std::uint64_t size, MemoryKind kind, std::string_view name) {
  const ForeignCall permission("buffer");
  return {core_, core_->memory.take(size, kind, name)};
}

void Device::trim() {
  const ForeignCall permission("trim");
  core_->queue.reap(core_->queue.completed());
  core_->memory.trim();
}

MemoryStatistics Device::memory() const { return core_->memory.statistics(); }
std::map<std::string, std::uint64_t> Device::memory_by_name() const {
  return core_->memory.bytes_by_name();
}

Kernel Device::kernel(const KernelDesc& desc) {
  const ForeignCall permission("kernel");
  return {core_, core_->kernels.find_or_make(desc)};
}

CommandList Device::command_list(std::string_view name) {
  const ForeignCall permission("command_list");
  return {core_, make_list(*core_, name)};
}

Submission Device::submit(const CommandList& list) {
  const CommandList* const one = &list;
  return submit(std::span(&one, 1));
}

Submission Device::submit(std::span<const CommandList* const> lists) {
  const ForeignCall permission("submit");
  const TimedPass timed(TimedWork::host, "submit");
  Profile* const profile = Profile::watching();
  std::vector<StampsRead> reads;
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
    if (profile == nullptr || !state.profile) continue;
    const StampsRead& read = reads.emplace_back(record_stamps_read(*core_, list->state()));
    works.push_back({*read.copies->commands, read.copies, read.copies->buffers});
  }
  Profile::Clock::time_point begin;
  if (profile != nullptr) begin = profile->will_submit();
  const std::uint64_t value = core_->staging.submit(works, *transfers_);
  core_->queue.reap(core_->queue.completed());
  for (const CommandList* list : lists) {
    ListState& state = *list->state();
    state.last_value = value;
    transfers_->add(state.transfers);
  }
  if (!reads.empty()) {
    profile->submitted([core = core_, value, begin, profile, reads = std::move(reads)](bool wait) {
      if (wait) core->queue.wait(value);
      return core->queue.completed() >= value && read_times(*core, *profile, begin, reads);
    });
  }
  return {core_, value};
}

void Device::wait_idle() {
  const ForeignCall permission("wait_idle");
  core_->queue.wait(core_->staging.submit({}, *transfers_));
}

void Device::upload(const Buffer& buffer, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Upload piece{&buffer, offset, bytes};
  upload(std::span(&piece, 1));
}

void Device::upload(std::span<const Upload> uploads) {
  const ForeignCall permission("upload");
  const TimedPass timed(TimedWork::host, "upload");
  for (const Upload& piece : uploads) core_->staging.upload(piece, *transfers_);
  transfers_->add({.uploads = 1});
}

void Device::download(const Buffer& buffer, std::uint64_t offset, std::span<std::byte> bytes) {
  const Download piece{&buffer, offset, bytes};
  download(std::span(&piece, 1));
}

void Device::download(std::span<const Download> downloads) {
  const ForeignCall permission("download");
  const TimedPass timed(TimedWork::host, "download");
  core_->staging.download(downloads, *transfers_);
  transfers_->add({.readbacks = 1});
}

Counters Device::counters() const {
  const LivePipelines& live = core_->pipelines;
  Counters counters{core_->transfers.read()};
  counters.pipelines_created = live.created;
  counters.pipeline_cache_hits = live.cache_hits;
  counters.driver_allocations = core_->memory.statistics().driver_allocations;
  counters.pipeline_ms = static_cast<double>(live.ns) * 1e-6;
  return counters;
}

Transfers Device::transfers() const { return transfers_->read(); }

DiskCache& Device::disk_cache() { return core_->disk_cache; }
void Device::save_pipeline_cache() {
  const ForeignCall permission("save_pipeline_cache");
  core_->kernels.save();
}

void Device::inject_fault(std::string_view call, std::uint64_t after, std::int32_t result,
                          std::uint32_t times) {
  core_->driver.inject(call, after, static_cast<vk::Result>(result), times);
}

std::uint64_t Device::driver_calls() const { return core_->driver.calls(); }

}  // namespace topograd::runtime::vulkan
