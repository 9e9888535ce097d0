// Uploads and downloads: direct if memory is mapped and idle, otherwise through rings.
#include "staging.hpp"

#include "../../../ir/machine/parallel.hpp"

#include <algorithm>
#include <cstring>

#include "core.hpp"

namespace topograd::runtime::vulkan {
namespace {

// Copies of whole cache lines are faster, and some devices require them.
constexpr std::uint64_t kStagingAlignment = 64;

std::shared_ptr<BufferState> ring_memory(Core& core, MemoryKind kind) {
  return core.memory.take(
      Ring::kSegmentBytes * Ring::kSegments, kind,
      kind == MemoryKind::Upload ? "topograd_upload_ring" : "topograd_readback_ring");
}

void record_copy(const Batch& batch, const BufferState& source, const BufferState& target,
                 vk::BufferCopy region) {
  batch.commands.copyBuffer(*source.slot.buffer, *target.slot.buffer, region);
}

void remember(const Batch& batch, const std::shared_ptr<BufferState>& state) {
  if (batch.buffers->empty() || batch.buffers->back() != state) batch.buffers->push_back(state);
}

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

/// Copies to memory of the device, on all threads: one thread writes across the bus at a fraction
/// of its rate. The caller holds a lock, so this thread takes no other work meanwhile.
void copy_up(std::byte* to, std::span<const std::byte> from) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  if (from.size() < 4 * kPiece || ir::pool_is_lost()) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const tbb::blocked_range<std::size_t> bytes(0, from.size(), kPiece);
  tbb::this_task_arena::isolate([&] {
    ir::parallel_for(bytes, [&](const auto& part) {
      std::memcpy(to + part.begin(), from.data() + part.begin(), part.size());
    });
  });
}

}  // namespace

std::uint64_t Staging::submit(std::span<const Work> works, LiveTransfers& account) {
  const std::lock_guard lock(mutex_);
  return submit_locked(works, account);
}

std::uint64_t Staging::submit_locked(std::span<const Work> works, LiveTransfers& account) {
  std::vector<Work> all;
  if (pending_) {
    end(*pending_);
    all.push_back({*pending_->commands, pending_->buffers, *pending_->buffers});
  }
  all.insert(all.end(), works.begin(), works.end());
  if (all.empty()) return core_.queue.last();
  const std::uint64_t value = core_.queue.submit(all, account);
  if (pending_) {
    up_.busy_until[up_.segment] = value;
    submitted(pending_, value);
  }
  return value;
}

void Staging::end(Batch& batch) {
  if (batch.ended) return;
  record_host_barrier(batch.commands);
  core_.driver.call("vkEndCommandBuffer", [&] { batch.commands.end(); });
  batch.ended = true;
}

void Staging::submitted(std::shared_ptr<Batch>& batch, std::uint64_t value) {
  batch->value = value;
  batch->buffers = nullptr;
  idle_.push_back(std::move(batch));
  batch = nullptr;
}

// Returns a command buffer whose last submission has finished, or a new one; recording has begun.
std::shared_ptr<Batch> Staging::take_batch() {
  const std::uint64_t completed = core_.queue.completed();
  const auto free =
      std::ranges::find_if(idle_, [&](const auto& idle) { return idle->value <= completed; });
  std::shared_ptr<Batch> batch;
  if (free != idle_.end()) {
    batch = std::move(*free);
    idle_.erase(free);
    core_.driver.call("vkResetCommandPool", [&] { batch->pool.reset(); });
    batch->written.clear();
    batch->ended = false;
  } else {
    batch = std::make_shared<Batch>();
    std::tie(batch->pool, batch->commands) = make_commands(core_);
    core_.set_name(batch->pool, "topograd_staging");
    core_.set_name(batch->commands, "topograd_staging");
  }
  batch->buffers = std::make_shared<std::vector<std::shared_ptr<BufferState>>>();
  core_.driver.call("vkBeginCommandBuffer", [&] {
    batch->commands.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  });
  record_barrier(batch->commands);
  return batch;
}

Batch& Staging::open_batch(LiveTransfers& account) {
  if (pending_ && pending_->ended) submit_locked({}, account);
  if (!pending_) {
    core_.queue.reap(core_.queue.completed());
    pending_ = take_batch();
  }
  return *pending_;
}

void Staging::upload(const Upload& piece, LiveTransfers& account) {
  const auto& state = checked_state("upload", core_, piece.buffer);
  check_range("upload", *state, piece.offset, piece.bytes.size());
  if (piece.bytes.empty()) return;
  core_.driver.check_lost();
  const std::lock_guard lock(mutex_);
  if (!write_directly(piece)) stage(piece, account);
  account.add({.bytes_up = piece.bytes.size()});
}

bool Staging::write_directly(const Upload& piece) {
  const BufferState& state = *piece.buffer->state();
  if (state.mapped == nullptr) return false;
  const std::uint64_t last_use = state.last_use;
  if (last_use == BufferState::kPending || last_use > core_.queue.completed()) return false;
  copy_up(state.mapped + piece.offset, piece.bytes);
  return true;
}

void Staging::stage(const Upload& piece, LiveTransfers& account) {
  const auto& state = piece.buffer->state();
  if (!up_.memory) up_.memory = ring_memory(core_, MemoryKind::Upload);
  std::uint64_t done = 0;
  bool first = true;
  while (done < piece.bytes.size()) {
    if (up_.room() == 0) rotate_upload(account);
    Batch& batch = open_batch(account);
    const bool written = !batch.written.insert(state.get()).second;
    if (first && written) {
      // An earlier piece of this batch may have written the same bytes.
      record_barrier(batch.commands);
      batch.written = {state.get()};
    }
    first = false;
    const std::uint64_t size = std::min<std::uint64_t>(up_.room(), piece.bytes.size() - done);
    copy_up(up_.memory->mapped + up_.offset(), piece.bytes.subspan(done, size));
    record_copy(batch, *up_.memory, *state, {up_.offset(), piece.offset + done, size});
    up_.used = std::min(up_.used + aligned(size), Ring::kSegmentBytes);
    remember(batch, state);
    state->last_use = BufferState::kPending;
    done += size;
  }
}

// Moves to the next segment, once the device no longer reads it.
void Staging::rotate_upload(LiveTransfers& account) {
  submit_locked({}, account);
  up_.segment = (up_.segment + 1) % Ring::kSegments;
  up_.used = 0;
  core_.queue.wait(up_.busy_until[up_.segment]);
}

void Staging::download(std::span<const Download> pieces, LiveTransfers& account) {
  for (const Download& piece : pieces) {
    const auto& state = checked_state("download", core_, piece.buffer);
    check_range("download", *state, piece.offset, piece.bytes.size());
    account.add({.bytes_down = piece.bytes.size()});
  }
  core_.driver.check_lost();
  submit({}, account);
  std::vector<Download> staged;
  for (const Download& piece : pieces) {
    if (!piece.bytes.empty() && !read_directly(piece)) staged.push_back(piece);
  }
  if (!staged.empty()) download_staged(staged, account);
}

bool Staging::read_directly(const Download& piece) {
  const BufferState& state = *piece.buffer->state();
  // The processor reads uncached device memory far slower than a copy does.
  if (state.mapped == nullptr || !state.cached) return false;
  const std::uint64_t last_use = state.last_use;
  core_.queue.wait(last_use == BufferState::kPending ? core_.queue.last() : last_use);
  std::memcpy(piece.bytes.data(), state.mapped + piece.offset, piece.bytes.size());
  return true;
}

void Staging::download_staged(std::span<const Download> pieces, LiveTransfers& account) {
  const std::lock_guard lock(down_mutex_);
  if (!down_.memory) down_.memory = ring_memory(core_, MemoryKind::Readback);
  for (auto& readbacks : readbacks_) readbacks.clear();
  std::shared_ptr<Batch> batch;
  for (const Download& piece : pieces) {
    const auto& state = piece.buffer->state();
    std::uint64_t done = 0;
    while (done < piece.bytes.size()) {
      if (down_.room() == 0) finish_segment(batch, account);
      if (!batch) {
        const std::lock_guard order(mutex_);
        batch = take_batch();
      }
      const std::uint64_t size = std::min<std::uint64_t>(down_.room(), piece.bytes.size() - done);
      record_copy(*batch, *state, *down_.memory, {piece.offset + done, down_.offset(), size});
      remember(*batch, state);
      readbacks_[down_.segment].push_back({down_.offset(), piece.bytes.subspan(done, size)});
      down_.used = std::min(down_.used + aligned(size), Ring::kSegmentBytes);
      done += size;
    }
  }
  for (std::size_t i = 0; i < Ring::kSegments; ++i) finish_segment(batch, account);
}

// Submits the copies into the current segment and reads back those of the next one.
void Staging::finish_segment(std::shared_ptr<Batch>& batch, LiveTransfers& account) {
  if (batch) {
    end(*batch);
    const Work work{*batch->commands, batch->buffers, *batch->buffers};
    const std::lock_guard order(mutex_);
    down_.busy_until[down_.segment] = submit_locked({&work, 1}, account);
    submitted(batch, down_.busy_until[down_.segment]);
  }
  down_.segment = (down_.segment + 1) % Ring::kSegments;
  down_.used = 0;
  land(down_.segment);
}

void Staging::land(std::size_t segment) {
  if (readbacks_[segment].empty()) return;
  core_.queue.wait(down_.busy_until[segment]);
  for (const Readback& readback : readbacks_[segment]) {
    std::memcpy(readback.target.data(), down_.memory->mapped + readback.offset,
                readback.target.size());
  }
  readbacks_[segment].clear();
}

}  // namespace topograd::runtime::vulkan
