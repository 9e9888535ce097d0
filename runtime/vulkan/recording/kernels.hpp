// A struct for each vector kernel: the buffers and push constants of its row, by name.
#pragma once

#include "../../../codegen/vector/kernels.hpp"
#include "../../device/device.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan::kernel {

/// A buffer, or a part of it.
struct Part {
  Part() = default;
  /// `size` in bytes, 0: up to the end.
  Part(const Buffer& of, std::uint64_t from = 0, std::uint64_t bytes = 0)
      : buffer(&of), offset(from), size(bytes) {}

  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0, size = 0;
};

// kernel::copy{{.source = x, .result = trial}, {.count = n}}: buffers and words that a variant of
// the kernel does not mention may be left out. VectorOps gives the scalars, and says whether some
// are fixed.
#define TG_READ(name, role) Part name = {};
#define TG_WRITE TG_READ
#define TG_UPDATE TG_READ
#define TG_READ_SUMS TG_READ
#define TG_WRITE_SUMS TG_READ
#define TG_READ_WORDS TG_READ
#define TG_WRITE_WORDS TG_READ
#define TG_SCALARS(access, ...)
#define TG_DECISION(access, ...) Part decision = {};
#define TG_PUSH(name, word) std::uint32_t name = 0;
#define TG_PLACE(name, word) codegen::Scalar name = codegen::Scalar::zero;
#define TG_KERNEL(kernel, buffer_members, push_members, ...)            \
  struct kernel {                                                       \
    static constexpr codegen::VectorOp kOp = codegen::VectorOp::kernel; \
    struct Buffers {                                                    \
      buffer_members                                                    \
    } buffers;                                                          \
    struct Push {                                                       \
      push_members                                                      \
    } push;                                                             \
  };
#include "../../../codegen/vector/kernels.def"
#undef TG_READ
#undef TG_WRITE
#undef TG_UPDATE
#undef TG_READ_SUMS
#undef TG_WRITE_SUMS
#undef TG_READ_WORDS
#undef TG_WRITE_WORDS
#undef TG_SCALARS
#undef TG_DECISION
#undef TG_PUSH
#undef TG_PLACE
#undef TG_KERNEL

}  // namespace topograd::runtime::vulkan::kernel
