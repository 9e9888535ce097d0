// The solver's vector kernels on the device, recorded by name.
#pragma once

#include "../../../codegen/vector/kernels.hpp"
#include "context.hpp"
#include "landing.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

namespace topograd::runtime::vulkan {

/// A buffer for partial sums, in scalar precision.
Buffer make_partials(const Context& context, std::uint64_t count);

/// Kernels of one engine's vector operations, and the scalars through which they talk.
class VectorOps {
 public:
  using Op = codegen::VectorOp;
  using Scalar = codegen::Scalar;

  /// `masked`: some scalars are fixed, so that kernels are to read the `fixed` buffer.
  VectorOps(Context& context, bool masked);

  Buffer& scalars() { return scalars_; }
  /// Writes scalars before the next submission; those that follow each other in one piece.
  void write(std::span<const std::pair<Scalar, double>> values);
  /// Records that the host will read all scalars after this list.
  void record_read(CommandList& list) { landing_.record(context_, list, scalars_); }
  /// Reads all scalars after `last`, whose list ended with record_read(): one read-back.
  const std::array<double, codegen::kScalarCount>& read(const Submission& last);
  /// What the last read() gave.
  const std::array<double, codegen::kScalarCount>& last_read() const { return values_; }

  struct Run {
    Op op = Op::fill;
    std::uint32_t width = 1;
    bool predicated = false;
    bool unpreconditioned = false;
    bool decides = true;
    codegen::StepTime step_time = codegen::StepTime::now;
    codegen::VectorConstants constants;
    std::uint32_t groups = 0;  ///< workgroups, where they are not as many as elements ask for
  };
  /// Records one kernel over run.constants.count elements or blocks. Returns its workgroups (one
  /// partial each).
  std::uint32_t record(CommandList& list, const Run& run, BindingTable table);
  /// Workgroups that record() uses for so many elements or blocks.
  std::uint32_t workgroups(std::uint64_t count) const { return context_.grid(count); }

  /// scalars[first + v] = sum of `count` partials from v * stride + start on, for v < sums.
  void sum(CommandList& list, const Buffer& partials, std::uint32_t start, std::uint32_t count,
           std::uint32_t stride, Scalar first, std::uint32_t sums, bool maximum = false);
  /// numbers[v] = sum of `count` partials from v * count on, for v < sums.
  void sum_into(CommandList& list, const Buffer& numbers, const Buffer& partials,
                std::uint32_t count, std::uint32_t sums);

 private:
  const LoadedKernel& kernel(const Run& run);
  void record(CommandList& list, const LoadedKernel& loaded, Op op, const BindingTable& table,
              const codegen::VectorConstants& constants, std::uint32_t groups);

  Context& context_;
  bool masked_;
  Buffer scalars_;
  Landing landing_;
  std::array<double, codegen::kScalarCount> values_{};
  /// By op, width, predicated, unpreconditioned, decides, step_time.
  std::map<std::tuple<Op, std::uint32_t, bool, bool, bool, codegen::StepTime>, LoadedKernel>
      kernels_;
};

}  // namespace topograd::runtime::vulkan
