// Slices as arguments of kernels.
#include <topograd/ops/slice.hpp>

#include <topograd/ir/error.hpp>

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

}  // namespace

Argument Slice::reads(Backend& backend, std::uint64_t begin, std::uint64_t count) const {
  return make(*this, storage->read_on(backend), begin, count);
}

Argument Slice::writes(Backend& backend, std::uint64_t begin, std::uint64_t count,
                       bool keep) const {
  const bool all = whole() && begin == 0 && count == size;
  Argument out = make(*this, storage->write_on(backend, keep || !all), begin, count);
  out.access = Access::write;
  return out;
}

Argument Slice::updates(Backend& backend, std::uint64_t begin, std::uint64_t count) const {
  Argument out = make(*this, storage->write_on(backend, true), begin, count);
  out.access = Access::read_write;
  return out;
}

Slice make_slice(Type type, std::uint64_t size, std::string name) {
  return {std::make_shared<Storage>(size * size_of(type), std::move(name)), type, 0, size};
}

void expect_size(const char* call, std::uint64_t expected, std::uint64_t got) {
  if (expected == got) return;
  throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) +
                                    " elements, got " + std::to_string(got));
}

}  // namespace topograd::ops
