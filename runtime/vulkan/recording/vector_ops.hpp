// The solver's vector kernels on the device, recorded by name.
#pragma once

#include "../../../codegen/vector/kernels.hpp"
#include "context.hpp"
#include "kernels.hpp"
#include "readback.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

namespace topograd::runtime::vulkan {

/// A buffer for partial sums, in scalar precision.
Buffer make_partials(const Context& context, std::uint64_t count);

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
