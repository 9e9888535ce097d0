// A problem's vectors and blocks on the device, and the solver's vector kernels by name.
#pragma once

#include "../../../codegen/vector/kernels.hpp"
#include "../../device/device.hpp"
#include "../../model/model.hpp"
#include "context.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

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
#define TG_SCALAR_INDEX(name, word) codegen::Scalar name = codegen::Scalar::zero;
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
#undef TG_SCALAR_INDEX
#undef TG_KERNEL

}  // namespace topograd::runtime::vulkan::kernel

namespace topograd::runtime::vulkan {

/// Host memory for results of recorded lists. If the host cannot read device memory
/// fast, lists copy them to host memory themselves, so that an evaluation is one submission; large
/// results go through the staging ring instead, in submissions of its own.
class Readback {
 public:
  Readback() = default;

  /// Records the copy behind a barrier after what writes `source`, if there is to be one. `own`:
  /// also where the host could read `source`, so that it may be written again before the results
  /// are read. A list that declares makes no memory for it.
  void record(Context& context, CommandList& list, const Buffer& source, bool own = false);
  /// Waits for `last`, the submission that wrote `source`, and reads numbers of `bytes` each.
  void read(Context& context, const Submission& last, const Buffer& source, bool wide,
            std::span<double> values) const;

 private:
  Buffer host_;
};

/// A buffer for partial sums, in scalar precision.
Buffer make_partials(const Context& context, std::uint64_t count);

/// The first scalar of each chunk and the one behind its last, as kernels read them.
Buffer make_chunk_ends(Context& context, std::span<const Chunk> chunks);

/// Which of the kernels of a row is recorded, and how large.
struct VectorVariant {
  std::uint32_t width = 1;
  bool predicated = false;
  bool unpreconditioned = false;
  bool decides = true;
  codegen::StepTime step_time = codegen::StepTime::now;
  std::uint32_t groups = 0;         ///< workgroups, where they are not as many as elements ask for
  const Buffer* scalars = nullptr;  ///< others than the solver's
};

/// Kernels of one engine's vector operations, and the scalars through which they talk.
class VectorOps {
 public:
  using Op = codegen::VectorOp;
  using Scalar = codegen::Scalar;
  using Variant = VectorVariant;

  /// `masked`: some scalars are fixed, so that kernels are to read the `fixed` buffer.
  VectorOps(Context& context, bool masked);

  Buffer& scalars() { return scalars_; }
  /// Writes scalars before the next submission; those that follow each other in one piece.
  void write(std::span<const std::pair<Scalar, double>> values);
  /// Records that the host will read all scalars after this list.
  void record_read(CommandList& list) { readback_.record(context_, list, scalars_); }
  /// Reads all scalars after `last`, whose list ended with record_read(): one read-back.
  const std::array<double, codegen::kScalarCount>& read(const Submission& last);
  /// Values of the last read().
  const std::array<double, codegen::kScalarCount>& last_read() const { return values_; }

  /// Records one kernel over push.count elements or blocks. Returns its workgroups (one partial
  /// each).
  ///
  /// Throws Error{Internal} if it was not declared.
  template <class Kernel>
  std::uint32_t record(CommandList& list, Kernel kernel, const Variant& variant = {}) {
    std::uint32_t count = 0;
    if constexpr (requires { kernel.push.masked; }) kernel.push.masked = masked_ ? 1 : 0;
    if constexpr (requires { kernel.push.count; }) count = kernel.push.count;
    using Parts = std::array<kernel::Part, sizeof(kernel.buffers) / sizeof(kernel::Part)>;
    using Words = std::array<std::uint32_t, sizeof(kernel.push) / sizeof(std::uint32_t)>;
    return record(list, Kernel::kOp, variant, count, std::bit_cast<Parts>(kernel.buffers),
                  std::bit_cast<Words>(kernel.push));
  }
  /// Workgroups that record() uses for so many elements or blocks.
  std::uint32_t workgroups(std::uint64_t count) const { return context_.grid(count); }

  /// scalars[first + v] = sum of `count` partials from v * stride + start on, for v < sums.
  void sum(CommandList& list, const Buffer& partials, std::uint32_t start, std::uint32_t count,
           std::uint32_t stride, Scalar first, std::uint32_t sums, bool maximum = false);
  /// numbers[v] = sum of `count` partials from v * count on, for v < sums.
  void sum_into(CommandList& list, const Buffer& numbers, const Buffer& partials,
                std::uint32_t count, std::uint32_t sums);

 private:
  std::uint32_t record(CommandList& list, Op op, const Variant& variant, std::uint32_t count,
                       std::span<const kernel::Part> parts, std::span<const std::uint32_t> push);
  LoadedKernel load(Op op, const Variant& variant);

  Context& context_;
  bool masked_;
  Buffer scalars_;
  Readback readback_;
  std::array<double, codegen::kScalarCount> values_{};
  /// Op, width, predicated, unpreconditioned, decides, step_time.
  using Key = std::tuple<Op, std::uint32_t, bool, bool, bool, codegen::StepTime>;
  static Key key(Op op, const Variant& variant) {
    return {op,
            variant.width,
            variant.predicated,
            variant.unpreconditioned,
            variant.decides,
            variant.step_time};
  }
  std::map<Key, LoadedKernel> kernels_;
};

}  // namespace topograd::runtime::vulkan

namespace topograd::runtime::vulkan {

/// Offset of the diagonal blocks of an array, and the width of the blocks that are inverted.
struct BlockRange {
  std::uint32_t x_first = 0;       ///< first scalar of the array
  std::uint32_t blocks_first = 0;  ///< position of its first packed triangle
  std::uint32_t count = 0;         ///< blocks
  std::uint32_t width = 1;
};

/// Blocks of one width, neighbours in every vector.
struct DiagonalBlocks {
  std::uint32_t count = 0, width = 1;
  std::uint32_t first = 0;          ///< their first unknown
  kernel::Part packed, inverse;     ///< triangles of the blocks, and of their inverses
  std::uint32_t inverse_first = 0;  ///< number of `inverse` where these begin
};

/// Records a dispatch for each width, with its part of the blocks; returns the workgroups.
/// cg_update: the first dispatch decides.
template <class Kernel>
std::uint32_t record_by_blocks(CommandList& list, VectorOps& vectors,
                               std::span<const DiagonalBlocks> all, Kernel kernel,
                               VectorVariant variant = {}) {
  std::uint32_t groups = 0;
  for (const DiagonalBlocks& blocks : all) {
    if constexpr (requires { kernel.buffers.blocks; }) kernel.buffers.blocks = blocks.packed;
    if constexpr (requires { kernel.buffers.inverse_blocks; })
      kernel.buffers.inverse_blocks = blocks.inverse;
    if constexpr (requires { kernel.push.inverse_first; })
      kernel.push.inverse_first = blocks.inverse_first;
    if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
    kernel.push.count = blocks.count;
    kernel.push.first = blocks.first;
    variant.width = blocks.width;
    variant.decides = Kernel::kOp != codegen::VectorOp::cg_update || groups == 0;
    groups += vectors.record(list, kernel, variant);
  }
  return groups;
}

/// Vectors have model.scalars numbers, in the order of the device.
struct StepVectors {
  StepVectors() = default;
  ///   most_sums       partial sums that a preconditioner adds to those of the blocks, at most
  ///   diagonal_alone  of each diagonal block of JᵀJ: no linear system is solved with these vectors
  ///
  /// The context outlives this. Throws Error{Unsupported} if a vector does not fit a storage buffer
  /// range.
  StepVectors(Context& context, const Model& model, std::uint32_t most_sums,
              bool diagonal_alone = false);

  /// Scalars that take no part in steps.
  const Buffer& not_free() const { return held ? held : fixed; }
  /// Damping and inverses of all blocks.
  kernel::precondition preconditioner() const {
    return {{.scale = scale, .damping = damping, .fixed_scalars = not_free()}, {}};
  }
  /// The trial point within bounds, at `length` of the step of all `count` scalars.
  kernel::bounded_trial bounded_trial(std::uint32_t count, const Buffer& lower, const Buffer& upper,
                                      codegen::Scalar length) const {
    return {{.point = x,
             .delta = step,
             .residual = residual,
             .damping = damping,
             .gradient = gradient,
             .lower_bounds = lower,
             .upper_bounds = upper,
             .result = trial,
             .partials = partials},
            {.count = count, .out_stride = ops->workgroups(count), .length = length}};
  }
  /// Workgroups of record_by_blocks().
  std::uint32_t block_groups() const;
  /// The blocks, in pieces that fit a range; as long as the buffers live.
  std::vector<DiagonalBlocks> diagonal_blocks() const;
  /// Records a kernel over all blocks; returns the workgroups.
  template <class Kernel>
  std::uint32_t record_by_blocks(CommandList& list, const Kernel& kernel,
                                 const VectorVariant& variant = {}) const {
    return vulkan::record_by_blocks(list, *ops, diagonal_blocks(), kernel, variant);
  }

  std::unique_ptr<VectorOps> ops;
  Buffer x, trial, gradient, direction, next_direction, result;
  Buffer step, residual, product, preconditioned, scale, damping;
  Buffer packed, inverse;  ///< diagonal blocks, see below
  Buffer fixed;            ///< u32 by scalar
  /// u32 by scalar: takes no part in steps; made where others than fixed ones may not.
  Buffer held;
  Buffer partials, curvature, decision;  ///< sums; curvature is sized by how products are made

  std::vector<BlockRange> array_blocks;           ///< by array
  std::vector<BlockRange> blocks;                 ///< the same in pieces that fit a range
  std::vector<std::uint32_t> diagonal_positions;  ///< by scalar: its offset in the packed blocks
  std::uint64_t packed_blocks = 0;
  std::uint32_t most_sums = 0;  ///< entries for partial sums of a preconditioner

 private:
  void lay_out_blocks(const Model& model, bool diagonal_alone);

  Context* context_ = nullptr;
};

}  // namespace topograd::runtime::vulkan
