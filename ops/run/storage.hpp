// Numbers that stay where they were last written, and ranges of them: the operands of operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../backend/backend.hpp"
#include "../backend/type.hpp"

namespace topograd::ops {

struct Maker;

/// The numbers that bytes hold, if they are of one type.
struct Elements {
  Type type = Type::f32;
  std::uint64_t count = 0;
};

/// Bytes with copies on the host and on devices, each of one version; a copy is valid if its
/// version is the latest. Shared by arrays that are slices of it. Any thread may read; a writer
/// must be alone.
///
/// A device with memory that the host can access (DeviceFacts::unified) shares the host's copy.
class Storage {
 public:
  /// Uninitialised; allocates nothing before the first use.
  explicit Storage(std::uint64_t bytes, std::string name = "array",
                   std::optional<Elements> elements = {});
  /// Wraps the caller's memory and its contents; it must outlive the storage and queued work.
  /// Devices work on it without a copy if OpBackend::import() succeeds.
  explicit Storage(std::span<std::byte> memory, std::string name = "caller's memory",
                   std::optional<Elements> elements = {});
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  /// Empty if they are not known.
  const std::optional<Elements>& elements() const { return elements_; }
  /// Increases with each write.
  std::uint64_t version() const;

  /// The contents on the host. Waits for pending writes, and copies the contents if the host has no
  /// valid copy. Valid until the next write.
  const std::byte* read_host();
  /// Starts a copy of the contents to the host if it has no valid copy; does not wait. If nothing
  /// is written in between, read_host() then waits only for that copy, not for work queued later.
  void begin_read();
  /// The same for writing: invalidates all other copies.
  ///
  ///   keep  preserve the contents, because not all of them will be written
  std::byte* write_host(bool keep);

  /// Memory of the backend with the contents, for kernels queued next; uploads them if needed.
  /// Throws Error{OutOfDeviceMemory}.
  std::shared_ptr<Memory> read_on(OpBackend& backend);
  /// The same for writing; see write_host().
  std::shared_ptr<Memory> write_on(OpBackend& backend, bool keep);

  /// True if the backend has a valid copy (of contents never written: always).
  bool resident_on(const OpBackend& backend) const;
  /// The backend whose copy was written last; null if none was.
  const OpBackend* written_on() const;
  /// The backend with a valid copy, preferably the CPU's; null before the first write.
  std::shared_ptr<OpBackend> holder() const;
  /// A device with a valid copy; null if there is none.
  const OpBackend* on_device() const;
  /// True if the host has the contents, or can read them without waiting for a device.
  bool on_host() const;

  /// The operation that computed the contents; null if the host wrote them.
  std::shared_ptr<Maker> maker() const;
  void made_by(std::shared_ptr<Maker> maker);
  /// True at the first call by an operation since the contents were written.
  bool is_first_use();

  /// The device for operations on it, unless options select another (Array::to). Empty: any.
  std::optional<Device> placed() const;
  void place(std::optional<Device> device);

 private:
  struct Copy {
    std::shared_ptr<OpBackend> backend;
    std::shared_ptr<Memory> memory;
    std::uint64_t version = 0;
    bool fetched = false;  ///< copied by begin_read()
  };
  Copy* find(const OpBackend& backend);
  Copy& make(const std::shared_ptr<OpBackend>& backend);
  const Copy* valid_copy() const;
  Copy* valid_copy() { return const_cast<Copy*>(std::as_const(*this).valid_copy()); }
  Copy& host_copy();
  void bring(Copy& to);
  void written(Copy& copy);

  const std::uint64_t bytes_;
  const std::string name_;
  const std::optional<Elements> elements_;
  mutable std::mutex mutex_;
  std::vector<Copy> copies_;
  std::uint64_t version_ = 0;  ///< 0: never written
  const OpBackend* written_on_ = nullptr;
  std::optional<Device> placed_;
  std::shared_ptr<Maker> maker_;  // maker of this version
  bool read_ = false;             // the host has read this version
  bool used_ = false;             // an operation has used this version
  bool wanted_ = false;           // the program, not an operation on the CPU, reads it
  std::span<std::byte> callers_;  ///< memory that a device may import
};

/// Test hook: surrounds later allocations of all backends with guard zones of that size in bytes, a
/// multiple of 256; 0 ends it. Such memory is kept until check_guard_zones().
void set_guard_zones(std::uint64_t bytes);
std::uint64_t guard_zone_bytes();
/// Lists writes to guard zones since the last call, one per line; synchronises and releases the
/// memory.
std::vector<std::string> check_guard_zones();

/// `size` elements of a storage, beginning with element `first`.
struct Slice {
  std::shared_ptr<Storage> storage;
  Type type = Type::f32;
  std::uint64_t first = 0, size = 0;  ///< elements

  std::uint64_t byte_offset() const { return first * size_of(type); }
  std::uint64_t bytes() const { return size * size_of(type); }
  /// True if it covers its storage, so that a write need not preserve other contents.
  bool whole() const { return first == 0 && bytes() == storage->bytes(); }

  /// The elements on the host, for reading and for writing; see Storage.
  template <class T>
  const T* read() const {
    return reinterpret_cast<const T*>(storage->read_host() + byte_offset());
  }
  template <class T>
  T* write() const {
    return reinterpret_cast<T*>(storage->write_host(!whole()) + byte_offset());
  }

  /// Elements [begin, begin + count) as kernel arguments. `keep`: the kernel writes only some.
  Argument reads(OpBackend& backend, std::uint64_t begin, std::uint64_t count) const;
  Argument writes(OpBackend& backend, std::uint64_t begin, std::uint64_t count,
                  bool keep = false) const;
  Argument updates(OpBackend& backend, std::uint64_t begin, std::uint64_t count) const;
  Argument reads(OpBackend& backend) const { return reads(backend, 0, size); }
  Argument writes(OpBackend& backend, bool keep = false) const {
    return writes(backend, 0, size, keep);
  }
  Argument updates(OpBackend& backend) const { return updates(backend, 0, size); }
};

/// A new, uninitialised storage of `size` elements. Throws Error{InvalidArgument} for a converted
/// negative size, Error{OutOfHostMemory} for a size beyond the address space.
Slice make_slice(Type type, std::uint64_t size, std::string name = "array");

/// Throws Error{Shape} "call: expected N elements, got M".
void expect_size(const char* call, std::uint64_t expected, std::uint64_t got);

/// Throws Error{InvalidArgument} "call: expected what of type T, got U".
void expect_type(const char* call, const char* what, Type expected, Type got);

/// True if some bytes belong to both slices.
bool overlap(const Slice& a, const Slice& b);

/// Throws Error{InvalidArgument} "call: expected what apart from what is read, got the same memory"
/// if the slices overlap.
void expect_apart(const char* call, const char* what, const Slice& written, const Slice& read);

}  // namespace topograd::ops
