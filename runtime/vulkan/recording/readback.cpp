// Copies of results in host memory.
#include "readback.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

namespace topograd::runtime::vulkan {
namespace {

constexpr std::uint64_t kLargestCopy = std::uint64_t{64} << 20;

template <class T>
void widen(const std::byte* bytes, std::span<double> values) {
  if constexpr (std::is_same_v<T, double>) {
    std::memcpy(values.data(), bytes, values.size_bytes());
  } else {
    const auto* narrow = reinterpret_cast<const T*>(bytes);
    std::copy(narrow, narrow + values.size(), values.begin());
  }
}

}  // namespace

void Readback::record(Context& context, CommandList& list, const Buffer& source, bool own) {
  if (list.declared() != nullptr) return;
  const bool readable = source.mapped() != nullptr && source.cached();
  if (!own && (readable || source.size() > kLargestCopy)) return;
  if (!host_ || host_.size() < source.size()) {
    host_ = context.device->buffer(source.size(), MemoryKind::Readback, "readback");
  }
  list.copy(source, 0, host_, 0, source.size());
}

void Readback::read(Context& context, const Submission& last, const Buffer& source, bool wide,
                    std::span<double> values) const {
  if (host_) {
    last.wait();
    return wide ? widen<double>(host_.mapped(), values) : widen<float>(host_.mapped(), values);
  }
  if (wide) return context.device->download<double>(source, values);
  std::vector<float> narrow(values.size());
  context.device->download<float>(source, narrow);
  std::copy(narrow.begin(), narrow.end(), values.begin());
}

}  // namespace topograd::runtime::vulkan
