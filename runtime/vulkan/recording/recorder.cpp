// Lists of an engine: kernels first, then the recording, its submission and its times.
#include "recorder.hpp"

#include "../../../ir/machine/stopwatch.hpp"
#include "../../device/kernels/kernel_cache.hpp"
#include "../../profile.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

/// Devices that have idled for some seconds work at less than half of their rate for so long.
constexpr double kWarmUpSeconds = 0.7;
/// A pause between two runs up to which a device does not count as idle.
constexpr double kPause = 0.02;

}  // namespace

std::vector<std::shared_ptr<KernelJob>> Recorder::declare(const Record& record) {
  DeclaredKernels kernels;
  CommandList list(kernels);
  record(list);
  return kernels.jobs();
}

void Recorder::make(const Record& record) {
  const TimedPass timed(TimedWork::host, "make_kernels");
  const auto jobs = declare(record);
  if (const RecordingWatch* const watch = recording_watch()) watch->declared(jobs);
  for (const auto& job : jobs) job->run();
}

bool Recorder::advance(Preparation& preparation, const Record& record) {
  using Stage = Preparation::Stage;
  if (preparation.stage == Stage::none) {
    preparation.jobs = declare(record);
    preparation.stage = Stage::compiling;
  }
  if (preparation.stage == Stage::compiling) {
    const auto ready = [](const auto& job) { return job->ready(); };
    if (!std::ranges::all_of(preparation.jobs, ready)) return false;
    for (const auto& job : std::exchange(preparation.jobs, {})) job->get();
    preparation.stage = Stage::done;
    if (context_.device->info().software()) {
      // It compiles when a kernel first runs: let it, where nobody waits.
      make(record);
      submit(make_list("rehearsal", record));
      preparation.rehearsal = last_;
      preparation.stage = Stage::rehearsing;
    }
  }
  if (preparation.stage == Stage::rehearsing && preparation.rehearsal.done())
    preparation.stage = Stage::done;
  return preparation.stage == Stage::done;
}

Recorded Recorder::make_list(std::string_view name, const Record& record) {
  const TimedPass timed(TimedWork::host, "record");
  Recorded recorded{context_.device->command_list(name)};
  if (const RecordingWatch* const watch = recording_watch()) watch->recording(name);
  const std::uint64_t before = context_.term_dispatches;
  record(recorded.list);
  recorded.kernels = context_.term_dispatches - before;
  return recorded;
}

void Recorder::make_lists(const std::vector<List>& lists) {
  make([&](CommandList& list) {
    for (const List& one : lists) one.record(list);
  });
  for (const List& one : lists) one.to = make_list(one.name, one.record);
}

void Recorder::submit(const Recorded& recorded) {
  const Recorded* const one = &recorded;
  submit(std::span(&one, 1));
}

void Recorder::submit(std::span<const Recorded* const> recorded) {
  std::vector<const CommandList*> lists;
  for (const Recorded* one : recorded) {
    dispatches_ += one->kernels;
    lists.push_back(&one->list);
  }
  last_ = context_.device->submit(lists);
}

const Recorded& Recorder::evaluation(const std::string& name, const Record& record) {
  const auto found = evaluations_->find(name);
  if (found != evaluations_->end()) return found->second;
  make(record);
  return evaluations_->emplace(name, make_list(name, record)).first->second;
}

void Recorder::warm_up(const Recorded& recorded) {
  if (context_.device->info().software() || seconds_since(last_timed_) < kPause) return;
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < kWarmUpSeconds) {
    submit(recorded);
    last_.wait();
  }
}

Timing Recorder::time_list(const Recorded& recorded, int warm_ups, int samples) {
  std::vector<double> device, wall;
  for (int k = 0; k < warm_ups + samples; ++k) {
    const auto start = std::chrono::steady_clock::now();
    submit(recorded);
    last_.wait();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    if (k < warm_ups) continue;
    wall.push_back(elapsed.count());
    if (const auto us = microseconds_between(recorded.list)) device.push_back(*us);
  }
  last_timed_ = std::chrono::steady_clock::now();
  const double wall_us = median(wall);
  return {.device_us = device.empty() ? wall_us : median(device), .wall_us = wall_us};
}

EngineStats Recorder::stats() const {
  const Transfers transfers = context_.device->transfers();
  const CompileStats compile = context_.compiled->stats();
  EngineStats stats;
  stats.kernels_on_device = dispatches_;
  stats.submissions = transfers.submissions;
  stats.readbacks = transfers.readbacks;
  stats.bytes_up = transfers.bytes_up;
  stats.bytes_down = transfers.bytes_down;
  stats.shaders_compiled = compile.compiled;
  stats.shader_cache_hits = compile.disk_hits + compile.memory_hits;
  stats.plan_seconds = context_.plan_seconds;
  stats.glsl_ms = compile.glsl_ms;
  stats.spirv_ms = compile.spirv_ms;
  stats.pipeline_ms = compile.pipeline_ms;
  stats.device_bytes = context_.device->memory().bytes_reserved;
  stats.compile_wall_ms = compile.wall_ms;
  return stats;
}

}  // namespace topograd::runtime::vulkan
