// Versions and copies of storages, and slices as arguments of kernels.
#include "storage.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "../../ir/error.hpp"
#include "chain.hpp"

namespace topograd::ops {
namespace {

Argument make(const Slice& slice, std::shared_ptr<Memory> memory, std::uint64_t begin,
              std::uint64_t count) {
  const auto width = static_cast<std::uint32_t>(size_of(slice.type));
  return {.memory = std::move(memory),
          .offset = (slice.first + begin) * width,
          .bytes = count * width,
          .element = width};
}

// Maximum bytes of an array: address differences must fit, with rounding and guard zones.
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max() - (1 << 20);

void check_count(Type type, std::uint64_t size) {
  const auto as_signed = static_cast<std::int64_t>(size);
  if (as_signed < 0) {
    throw Error(ErrorCode::InvalidArgument,
                "array: expected a size >= 0, got " + std::to_string(as_signed));
  }
  if (size > kMostBytes / size_of(type)) {
    throw Error(ErrorCode::OutOfHostMemory,
                "array: expected at most " + std::to_string(kMostBytes / size_of(type)) +
                    " elements of " + std::string(name(type)) + ", got " + std::to_string(size));
  }
}

}  // namespace

Argument Slice::reads(OpBackend& backend, std::uint64_t begin, std::uint64_t count) const {
  return make(*this, storage->read_on(backend), begin, count);
}

Argument Slice::writes(OpBackend& backend, std::uint64_t begin, std::uint64_t count,
                       bool keep) const {
  const bool all = whole() && begin == 0 && count == size;
  Argument out = make(*this, storage->write_on(backend, keep || !all), begin, count);
  out.access = Access::write;
  return out;
}

Argument Slice::updates(OpBackend& backend, std::uint64_t begin, std::uint64_t count) const {
  Argument out = make(*this, storage->write_on(backend, true), begin, count);
  out.access = Access::read_write;
  return out;
}

Slice make_slice(Type type, std::uint64_t size, std::string name) {
  check_count(type, size);
  return {std::make_shared<Storage>(size * size_of(type), std::move(name), Elements{type, size}),
          type, 0, size};
}

void expect_size(const char* call, std::uint64_t expected, std::uint64_t got) {
  if (expected == got) return;
  throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) +
                                    " elements, got " + std::to_string(got));
}

void expect_type(const char* call, const char* what, Type expected, Type got) {
  if (expected == got) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected " + what + " of type " +
                                              std::string(name(expected)) + ", got " +
                                              std::string(name(got)));
}

bool overlap(const Slice& a, const Slice& b) {
  return a.storage == b.storage && a.byte_offset() < b.byte_offset() + b.bytes() &&
         b.byte_offset() < a.byte_offset() + a.bytes();
}

void expect_apart(const char* call, const char* what, const Slice& written, const Slice& read) {
  if (!overlap(written, read)) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected " + what +
                                              " apart from what is read, got the same memory");
}

Storage::Storage(std::uint64_t bytes, std::string name, std::optional<Elements> elements)
    : bytes_(bytes), name_(std::move(name)), elements_(elements) {}

Storage::Storage(std::span<std::byte> memory, std::string name, std::optional<Elements> elements)
    : bytes_(memory.size()), name_(std::move(name)), elements_(elements), callers_(memory) {
  if (memory.empty()) return;
  copies_.push_back({cpu_backend(), cpu_backend()->import(memory, name_), ++version_});
  written_on_ = cpu_backend().get();
}

std::uint64_t Storage::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

Storage::Copy* Storage::find(const OpBackend& backend) {
  const auto it = std::ranges::find_if(
      copies_, [&](const Copy& copy) { return copy.backend.get() == &backend && !copy.fetched; });
  return it == copies_.end() ? nullptr : &*it;
}

Storage::Copy& Storage::make(const std::shared_ptr<OpBackend>& backend) {
  if (Copy* there = find(*backend)) return *there;
  if (!callers_.empty() && !backend->is_cpu()) {
    if (auto imported = backend->import(callers_, name_)) {
      // The same memory under another name: there is only one copy.
      callers_ = {};
      Copy& own = *find(*cpu_backend());
      own.backend = backend;
      own.memory = std::move(imported);
      return own;
    }
  }
  auto memory = backend->allocate(bytes_, name_);
  copies_.push_back({backend, std::move(memory), 0});
  return copies_.back();
}

/// Prefers the copy on the host, which is cheapest to read. Null if nothing was written.
const Storage::Copy* Storage::valid_copy() const {
  const Copy* found = nullptr;
  for (const Copy& copy : copies_) {
    if (version_ == 0 || copy.version != version_) continue;
    if (found == nullptr || copy.backend->is_cpu() || copy.fetched) found = &copy;
  }
  return found;
}

void Storage::bring(Copy& to) {
  if (version_ == 0 || to.version == version_) return;
  Copy* from = valid_copy();
  if (from->memory->host() != nullptr) {
    from->backend->wait(from->memory);
    to.backend->upload(to.memory, 0, {from->memory->host(), bytes_});
  } else if (to.memory->host() != nullptr) {
    to.backend->wait(to.memory);
    from->backend->download(from->memory, 0, {to.memory->host(), bytes_});
  } else {
    std::vector<std::byte> between(bytes_);
    from->backend->download(from->memory, 0, between);
    to.backend->upload(to.memory, 0, between);
  }
  to.version = version_;
}

void Storage::written(Copy& copy) {
  copy.version = ++version_;
  written_on_ = copy.backend.get();
  maker_ = nullptr;
  read_ = used_ = wanted_ = false;
}

/// A copy that the host can access: the valid one, an old one, or a new one.
Storage::Copy& Storage::host_copy() {
  Copy* found = valid_copy();
  if (found != nullptr && found->memory->host() != nullptr) return *found;
  for (Copy& copy : copies_) {
    if (copy.memory->host() != nullptr) return copy;
  }
  // The placed device's memory, if the host can access it.
  if (placed_ && placed_->facts().unified) return make(placed_->shared_backend());
  return make(cpu_backend());
}

const std::byte* Storage::read_host() {
  const std::lock_guard lock(mutex_);
  const HostRead read;
  const Copy* const valid = valid_copy();
  const std::shared_ptr<OpBackend> from = valid ? valid->backend : nullptr;
  Copy& copy = host_copy();
  bring(copy);
  copy.backend->wait(copy.memory);
  if (!std::exchange(read_, true) && from && !from->is_cpu())
    read.moved(maker_.get(), *from, bytes_);
  if (maker_ && !wanted_) wanted_ = HostRead::wanted(*maker_, bytes_);
  return copy.memory->host();
}

void Storage::begin_read() {
  const std::lock_guard lock(mutex_);
  Copy* found = valid_copy();
  if (found == nullptr || found->memory->host() != nullptr) return;
  std::shared_ptr<Memory> fetched = found->backend->fetch(found->memory, name_);
  if (!fetched) return;
  const std::shared_ptr<OpBackend> backend = found->backend;
  std::erase_if(copies_, [](const Copy& copy) { return copy.fetched; });
  copies_.push_back({backend, std::move(fetched), version_, true});
}

std::byte* Storage::write_host(bool keep) {
  const std::lock_guard lock(mutex_);
  Copy& copy = host_copy();
  if (keep) bring(copy);
  copy.backend->wait(copy.memory);
  written(copy);
  return copy.memory->host();
}

std::shared_ptr<Memory> Storage::read_on(OpBackend& backend) {
  const std::lock_guard lock(mutex_);
  Copy& copy = make(backend.shared_from_this());
  bring(copy);
  return copy.memory;
}

std::shared_ptr<Memory> Storage::write_on(OpBackend& backend, bool keep) {
  const std::lock_guard lock(mutex_);
  Copy& copy = make(backend.shared_from_this());
  if (keep) bring(copy);
  written(copy);
  return copy.memory;
}

bool Storage::resident_on(const OpBackend& backend) const {
  const std::lock_guard lock(mutex_);
  if (version_ == 0) return true;
  return std::ranges::any_of(copies_, [&](const Copy& copy) {
    return copy.backend.get() == &backend && copy.version == version_;
  });
}

const OpBackend* Storage::written_on() const {
  const std::lock_guard lock(mutex_);
  return written_on_;
}

std::shared_ptr<OpBackend> Storage::holder() const {
  const std::lock_guard lock(mutex_);
  const Copy* const found = valid_copy();
  return found ? found->backend : nullptr;
}

const OpBackend* Storage::on_device() const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(copies_, [&](const Copy& copy) {
    return version_ > 0 && copy.version == version_ && !copy.backend->is_cpu() && !copy.fetched;
  });
  return found == copies_.end() ? nullptr : found->backend.get();
}

bool Storage::on_host() const {
  const std::lock_guard lock(mutex_);
  return version_ == 0 || std::ranges::any_of(copies_, [&](const Copy& copy) {
           return copy.version == version_ && (copy.backend->is_cpu() || copy.fetched ||
                                               (read_ && copy.memory->host() != nullptr));
         });
}

std::shared_ptr<Maker> Storage::maker() const {
  const std::lock_guard lock(mutex_);
  return maker_;
}

bool Storage::is_first_use() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(used_, true);
}

void Storage::made_by(std::shared_ptr<Maker> maker) {
  const std::lock_guard lock(mutex_);
  maker_ = std::move(maker);
}

std::optional<Device> Storage::placed() const {
  const std::lock_guard lock(mutex_);
  return placed_;
}

void Storage::place(std::optional<Device> device) {
  const std::lock_guard lock(mutex_);
  placed_ = std::move(device);
}

}  // namespace topograd::ops
