// Recording of vector kernels and traffic of scalars.
#include "vector_ops.hpp"

#include "../../../codegen/vector/table.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::GroupCount;

VectorOps::VectorOps(Context& context, bool masked) : context_(context), masked_(masked) {
  const bool wide = context.scalar_precision() == Precision::f64;
  scalars_ =
      context.device->buffer(codegen::kScalarCount * (wide ? 8 : 4), MemoryKind::Device, "scalars");
  const auto initial = codegen::initial_scalars();
  if (wide) {
    context.device->upload<double>(scalars_, initial);
  } else {
    const std::vector<float> narrow(initial.begin(), initial.end());
    context.device->upload<float>(scalars_, narrow);
  }
}

void VectorOps::write(std::span<const std::pair<Scalar, double>> values) {
  for (std::size_t first = 0, next = 1; first < values.size(); first = next++) {
    const std::uint32_t at = codegen::slot(values[first].first);
    std::vector<double> run = {values[first].second};
    while (next < values.size() && codegen::slot(values[next].first) == at + run.size())
      run.push_back(values[next++].second);
    if (context_.scalar_precision() == Precision::f64) {
      context_.device->upload<double>(scalars_, run, at * 8);
    } else {
      const std::vector<float> narrow(run.begin(), run.end());
      context_.device->upload<float>(scalars_, narrow, at * 4);
    }
  }
}

const std::array<double, codegen::kScalarCount>& VectorOps::read(const Submission& last) {
  const bool wide = context_.scalar_precision() == Precision::f64;
  landing_.read(context_, last, scalars_, wide, values_);
  return values_;
}

Buffer make_partials(const Context& context, std::uint64_t count) {
  const std::uint64_t bytes = context.scalar_precision() == Precision::f64 ? 8 : 4;
  return context.device->buffer(std::max<std::uint64_t>(count, 1) * bytes, MemoryKind::Device,
                                "partials");
}

const LoadedKernel& VectorOps::kernel(const Run& run) {
  const std::tuple key(run.op, run.width, run.predicated, run.unpreconditioned, run.decides,
                       run.step_time);
  const auto found = kernels_.find(key);
  if (found != kernels_.end()) return found->second;
  LoadedKernel loaded =
      load_kernel(context_, codegen::VectorKernelRequest{.op = run.op,
                                                         .width = run.width,
                                                         .predicated = run.predicated,
                                                         .unpreconditioned = run.unpreconditioned,
                                                         .decides = run.decides,
                                                         .step_time = run.step_time});
  return kernels_.emplace(key, std::move(loaded)).first->second;
}

std::uint32_t VectorOps::record(CommandList& list, const Run& run, BindingTable table) {
  const GroupCount groups = codegen::row(run.op).groups;
  const std::uint32_t workgroups = run.groups > 0              ? run.groups
                                   : groups == GroupCount::one ? 1
                                   : groups == GroupCount::few
                                       ? context_.update_grid(run.constants.count)
                                       : this->workgroups(run.constants.count);
  codegen::VectorConstants constants = run.constants;
  constants.masked = masked_ ? 1 : 0;
  table.set(BufferRole::scalars, scalars_);
  record(list, kernel(run), run.op, table, constants, workgroups);
  return workgroups;
}

void VectorOps::record(CommandList& list, const LoadedKernel& loaded, Op op,
                       const BindingTable& table, const codegen::VectorConstants& constants,
                       std::uint32_t groups) {
  const std::vector<std::uint32_t> words = codegen::push_words(op, constants);
  dispatch(context_, list, loaded, table, std::as_bytes(std::span(words)), groups);
}

void VectorOps::sum(CommandList& list, const Buffer& partials, std::uint32_t start,
                    std::uint32_t count, std::uint32_t stride, Scalar first, std::uint32_t sums,
                    bool maximum) {
  const Op op = maximum ? Op::max_partials : Op::sum_partials;
  BindingTable table;
  table.set(BufferRole::scalars, scalars_);
  table.set(BufferRole::partials, partials);
  record(list, kernel({.op = op}), op, table,
         {.count = count, .out_first = start, .out_stride = stride, .a = codegen::slot(first)},
         sums);
}

void VectorOps::sum_into(CommandList& list, const Buffer& numbers, const Buffer& partials,
                         std::uint32_t count, std::uint32_t sums) {
  BindingTable table;
  table.set(BufferRole::scalars, numbers);
  table.set(BufferRole::partials, partials);
  record(list, kernel({.op = Op::sum_partials}), Op::sum_partials, table,
         {.count = count, .out_stride = count, .a = 0}, sums);
}

}  // namespace topograd::runtime::vulkan
