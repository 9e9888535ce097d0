// Numbers that live where they were last written, and are copied only when somebody reads them
// elsewhere.
#pragma once

#include "../backend/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {

struct Maker;

/// Bytes with copies on the host and on devices, each of one version; a copy is valid if it is of
/// the latest. Shared by the arrays that are slices of it. Any thread may read; a writer is alone.
///
/// On a device whose memory the host can read and write (DeviceFacts::unified) there is one copy
/// for both, and no byte is copied.
class Storage {
 public:
  /// Undefined contents; nothing is allocated before the first use.
  explicit Storage(std::uint64_t bytes, std::string name = "array");
  /// The caller's memory, with what it holds; it outlives the storage and what is queued. Devices
  /// work on it without a copy where Backend::import() can.
  explicit Storage(std::span<std::byte> memory, std::string name = "caller's memory");
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  /// Grows with each write.
  std::uint64_t version() const;

  /// The contents on the host; waits for what writes them, and copies them if they are elsewhere
  /// only. Valid until the next write.
  const std::byte* read_host();
  /// Begins to copy the contents to the host, if they are elsewhere only; does not wait. A
  /// read_host() of what has not been written since then waits for that copy, and for nothing that
  /// was queued later.
  void begin_read();
  /// The same to be written: other copies are out of date from now on.
  ///
  ///   keep  contents matter, because not all of them will be written
  std::byte* write_host(bool keep);

  /// Memory of the backend with the contents, for kernels that are queued next; uploads them if
  /// they are not there. Throws Error{OutOfDeviceMemory}.
  std::shared_ptr<Memory> read_on(Backend& backend);
  /// The same to be written; see write_host().
  std::shared_ptr<Memory> write_on(Backend& backend, bool keep);

  /// There is a valid copy (of contents that nobody has written yet: anywhere).
  bool resident_on(const Backend& backend) const;
  /// The backend whose copy was written last; null before.
  const Backend* written_on() const;
  /// The backend that has the contents, the CPU's before any other; null before the first write.
  std::shared_ptr<Backend> holder() const;
  /// A device that has the contents; null if none has.
  const Backend* on_device() const;
  /// The host has them, or reads them without waiting for a device.
  bool on_host() const;

  /// The operation that made the contents; null for what the host wrote.
  std::shared_ptr<Maker> maker() const;
  void made_by(std::shared_ptr<Maker> maker);
  /// No operation has asked this since the contents were written.
  bool is_first_use();

  /// Where operations on it run unless they are told otherwise (Array::to). Nothing: anywhere.
  std::optional<Device> placed() const;
  void place(std::optional<Device> device);

 private:
  struct Copy {
    std::shared_ptr<Backend> backend;
    std::shared_ptr<Memory> memory;
    std::uint64_t version = 0;
    bool fetched = false;  ///< by begin_read()
  };
  Copy* find(const Backend& backend);
  Copy& make(const std::shared_ptr<Backend>& backend);
  const Copy* valid_copy() const;
  Copy* valid_copy() { return const_cast<Copy*>(std::as_const(*this).valid_copy()); }
  Copy& host_copy();
  void bring(Copy& to);
  void written(Copy& copy);

  const std::uint64_t bytes_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::vector<Copy> copies_;
  std::uint64_t version_ = 0;  ///< 0: never written
  const Backend* written_on_ = nullptr;
  std::optional<Device> placed_;
  std::shared_ptr<Maker> maker_;  // of this version
  bool read_ = false;             // this version, by the host
  bool used_ = false;             // this version, by an operation
  bool wanted_ = false;           // by the program, rather than an operation on the CPU
  std::span<std::byte> callers_;  ///< memory that a device may import
};

/// Test hook: from now on allocations of all backends have so many bytes before and behind them
/// that nobody may write, a multiple of 256; 0 ends it. Such memory is kept until
/// check_guard_zones().
void set_guard_zones(std::uint64_t bytes);
std::uint64_t guard_zone_bytes();
/// What was written into guard zones since the last call, a line each; synchronises. Lets go of the
/// memory.
std::vector<std::string> check_guard_zones();

}  // namespace topograd::ops
