// Arrays of numbers that stay where they were last computed.
#pragma once

#include "../../ir/error.hpp"
#include "../run/run.hpp"
#include "../run/storage.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {

/// A handle to `size()` numbers: float, double, std::int32_t or std::uint32_t. Copies and slices
/// share the numbers. Not thread-safe if one thread writes.
template <class T>
requires kIsElement<T>
class Array {
 public:
  /// An empty array.
  Array() : Array(std::uint64_t{0}) {}
  /// Uninitialised numbers.
  explicit Array(std::uint64_t size) : slice_(make_slice(type_of<T>(), size)) {}
  /// Copies the numbers.
  explicit Array(std::span<const T> values) : Array(values.size()) {
    if (!values.empty()) std::memcpy(slice_.write<T>(), values.data(), values.size_bytes());
  }
  explicit Array(const std::vector<T>& values) : Array(std::span<const T>(values)) {}
  Array(std::initializer_list<T> values)
      : Array(std::span<const T>(values.begin(), values.size())) {}
  /// A typed handle to a slice of that type.
  explicit Array(Slice slice) : slice_(std::move(slice)) {}

  /// Refers to the caller's memory, which must outlive the array and queued work. A device that
  /// imports host memory (VK_EXT_external_memory_host) works on it in place if it begins and ends
  /// at page boundaries (usually 4 KiB); others copy. Access it only through the array: read() and
  /// write() wait for the device. A device with its own memory uses the bus in every pass.
  static Array over(std::span<T> memory) {
    return Array(Slice{std::make_shared<Storage>(std::as_writable_bytes(memory), "caller's memory",
                                                 Elements{type_of<T>(), memory.size()}),
                       type_of<T>(), 0, memory.size()});
  }

  static Array full(std::uint64_t size, T value) {
    Array out(size);
    std::ranges::fill(out.write(), value);
    return out;
  }

  std::uint64_t size() const { return slice_.size; }
  bool empty() const { return size() == 0; }
  const Slice& untyped() const { return slice_; }

  /// `count` elements from `first`, which share this array's memory. Throws Error{Shape}.
  Array slice(std::uint64_t first, std::uint64_t count) const {
    if (first > size() || count > size() - first) {
      throw Error(ErrorCode::Shape, "slice: elements " + std::to_string(first) + " + " +
                                        std::to_string(count) + " do not lie in an array of " +
                                        std::to_string(size()));
    }
    Slice out = slice_;
    out.first += first;
    out.size = count;
    return Array(std::move(out));
  }

  /// The numbers on the host; waits until they are computed. Valid until the next write.
  std::span<const T> read() const { return {slice_.template read<T>(), size()}; }
  /// The same for writing.
  std::span<T> write() { return {slice_.template write<T>(), size()}; }
  /// Starts a copy of the numbers to the host; read() then waits only for that copy, not for work
  /// queued later. Returns this.
  const Array& begin_read() const {
    slice_.storage->begin_read();
    return *this;
  }
  std::vector<T> to_vector() const {
    const std::span<const T> values = read();
    return {values.begin(), values.end()};
  }
  /// The number of an array of size 1. Throws Error{Shape} for other sizes.
  T item() const {
    expect_size("item", 1, size());
    return read()[0];
  }

  /// Moves the numbers to a device unless they are there. Later operations on this memory run on
  /// that device and their results stay there. Throws Error{OutOfDeviceMemory}.
  Array& to(const Device& device) {
    slice_.storage->place(device);
    slice_.storage->read_on(device.backend());
    return *this;
  }

 private:
  Slice slice_;
};

}  // namespace topograd::ops
