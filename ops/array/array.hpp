// Arrays of numbers that live where they were last worked on.
#pragma once

#include "../../ir/error.hpp"
#include "../run/run.hpp"
#include "../run/slice.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {

/// A handle on `size()` numbers: float, double, std::int32_t or std::uint32_t. Copies share them,
/// as slices do: what is written through one is seen by all. One thread at a time, if one writes.
template <class T>
requires kIsElement<T>
class Array {
 public:
  /// No elements.
  Array() : Array(std::uint64_t{0}) {}
  /// Undefined numbers.
  explicit Array(std::uint64_t size) : slice_(make_slice(type_of<T>(), size)) {}
  /// Copies the numbers.
  explicit Array(std::span<const T> values) : Array(values.size()) {
    if (!values.empty()) std::memcpy(slice_.write<T>(), values.data(), values.size_bytes());
  }
  explicit Array(const std::vector<T>& values) : Array(std::span<const T>(values)) {}
  Array(std::initializer_list<T> values)
      : Array(std::span<const T>(values.begin(), values.size())) {}
  /// The typed handle on a slice of that type.
  explicit Array(Slice slice) : slice_(std::move(slice)) {}

  /// The caller's memory, not a copy of it; it outlives the array and what is queued. A device that
  /// imports host memory (VK_EXT_external_memory_host) works on it in place if it begins and ends
  /// at its pages, mostly of 4 KiB; others copy. Touch it through the array alone: read() and
  /// write() wait for the device. On a device with memory of its own every pass goes over the bus.
  static Array over(std::span<T> memory) {
    return Array(Slice{std::make_shared<Storage>(std::as_writable_bytes(memory)), type_of<T>(), 0,
                       memory.size()});
  }

  static Array full(std::uint64_t size, T value) {
    Array out(size);
    std::ranges::fill(out.write(), value);
    return out;
  }

  std::uint64_t size() const { return slice_.size; }
  bool empty() const { return size() == 0; }
  const Slice& untyped() const { return slice_; }

  /// `count` elements from `first` on, which share this array's memory. Throws Error{Shape}.
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

  /// The numbers on the host; waits for what computes them. Valid until the next write.
  std::span<const T> read() const { return {slice_.template read<T>(), size()}; }
  /// The same to be written.
  std::span<T> write() { return {slice_.template write<T>(), size()}; }
  /// Begins to copy the numbers to the host; read() then waits for that, not for what is queued
  /// afterwards. Returns this.
  const Array& begin_read() const {
    slice_.storage->begin_read();
    return *this;
  }
  std::vector<T> to_vector() const {
    const std::span<const T> values = read();
    return {values.begin(), values.end()};
  }
  /// The number of an array of one. Throws Error{Shape} for others.
  T item() const {
    expect_size("item", 1, size());
    return read()[0];
  }

  /// Operations on this memory run there from now on, and their results stay there. Copies the
  /// numbers, unless they are there. Throws Error{OutOfDeviceMemory}.
  Array& to(const Device& device) {
    slice_.storage->place(device);
    slice_.storage->read_on(device.backend());
    return *this;
  }

 private:
  Slice slice_;
};

}  // namespace topograd::ops
