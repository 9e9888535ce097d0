// Untyped pieces of storages: what operations are written for, under the typed arrays.
#pragma once

#include "../backend/type.hpp"
#include "storage.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace topograd::ops {

/// `size` elements from element `first` of a storage on.
struct Slice {
  std::shared_ptr<Storage> storage;
  Type type = Type::f32;
  std::uint64_t first = 0, size = 0;  ///< elements

  std::uint64_t byte_offset() const { return first * size_of(type); }
  std::uint64_t bytes() const { return size * size_of(type); }
  /// All of its storage, so that nothing else there has to be kept when it is written.
  bool whole() const { return first == 0 && bytes() == storage->bytes(); }

  /// The elements on the host, to read and to write; see Storage.
  template <class T>
  const T* read() const {
    return reinterpret_cast<const T*>(storage->read_host() + byte_offset());
  }
  template <class T>
  T* write() const {
    return reinterpret_cast<T*>(storage->write_host(!whole()) + byte_offset());
  }

  /// Elements [begin, begin + count) as arguments of a kernel. `keep`: not all of what is written
  /// is written by it.
  Argument reads(Backend& backend, std::uint64_t begin, std::uint64_t count) const;
  Argument writes(Backend& backend, std::uint64_t begin, std::uint64_t count,
                  bool keep = false) const;
  Argument updates(Backend& backend, std::uint64_t begin, std::uint64_t count) const;
  Argument reads(Backend& backend) const { return reads(backend, 0, size); }
  Argument writes(Backend& backend, bool keep = false) const {
    return writes(backend, 0, size, keep);
  }
  Argument updates(Backend& backend) const { return updates(backend, 0, size); }
};

/// A new storage of so many elements, undefined. Throws Error{InvalidArgument} for a negative size
/// that was converted, Error{OutOfHostMemory} for what no memory can address.
Slice make_slice(Type type, std::uint64_t size, std::string name = "array");

/// Throws Error{Shape} "call: expected N elements, got M".
void expect_size(const char* call, std::uint64_t expected, std::uint64_t got);

/// Throws Error{InvalidArgument} "call: expected what of type T, got U".
void expect_type(const char* call, const char* what, Type expected, Type got);

/// Whether some bytes belong to both.
bool overlap(const Slice& a, const Slice& b);

/// Throws Error{InvalidArgument} "call: expected what apart from what is read, got the same memory"
/// if they overlap.
void expect_apart(const char* call, const char* what, const Slice& written, const Slice& read);

}  // namespace topograd::ops
