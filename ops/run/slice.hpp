// Untyped ranges of storages: the operands of all operations.
#pragma once

#include "../backend/type.hpp"
#include "storage.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace topograd::ops {

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
