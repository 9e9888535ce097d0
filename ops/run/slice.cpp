// Slices as arguments of kernels.
#include "slice.hpp"

#include "../../ir/error.hpp"

#include <limits>

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

}  // namespace topograd::ops
