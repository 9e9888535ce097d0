// Hessians of instances in pieces, and their negative parts.
#include "term_hessians.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <string>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Bytes of Hessians on the device at a time: enough to fill it, little beside what it has.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

}  // namespace

void TermHessians::record_projection(CommandList& list, std::uint32_t width, std::uint32_t count,
                                     const Buffer& blocks) {
  if (!projection_ && list.declared() != nullptr)
    projection_ = load_kernel(context_, codegen::ProjectionRequest{});
  if (!projection_) throw Error(ErrorCode::Internal, "the projection of Hessians was not declared");
  BindingTable table;
  table.set(BufferRole::blocks, blocks);
  table.set(BufferRole::rotated, rotated_);
  table.set(BufferRole::eigenvectors, eigenvectors_);
  const std::uint32_t group = projection_.workgroup_size;
  const auto step = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max<std::uint64_t>(context_.max_invocations(), 1), count));
  for (codegen::ProjectionConstants run :
       codegen::projection_dispatches({.stride = count, .width = width})) {
    list.barrier();
    for (run.first = 0; run.first < count; run.first = run.count) {
      const std::uint32_t n = std::min(step, count - run.first);
      run.count = run.first + n;
      dispatch(context_, list, projection_, table, run, (n + group - 1) / group);
    }
  }
}

void TermHessians::read(std::size_t term, bool project, std::span<double> values) {
  DeviceTerm* at = terms_.at(term).get();
  if (at == nullptr) return;
  const std::uint32_t n = at->slots(), size = n * (n + 1) / 2;
  // The eigenvectors are the widest rows.
  const std::uint64_t bytes = std::uint64_t{context_.element_bytes()} * (project ? n * n : size);
  const std::uint64_t most = std::min(context_.max_range(), kPieceBytes) / bytes;
  if (most == 0) {
    throw Error(ErrorCode::Unsupported, "vulkan: Hessians of " + std::to_string(n) +
                                            " unknowns expect a storage buffer range of " +
                                            std::to_string(bytes) + " bytes at least, got " +
                                            std::to_string(context_.max_range()));
  }
  const auto instances = static_cast<std::uint32_t>(at->instances());
  const std::uint64_t piece = std::min<std::uint64_t>(most, instances);
  const Buffer blocks = make_numbers(context_, piece * size, "hessians");
  if (project) {
    rotated_ = make_numbers(context_, piece * size, "rotated");
    eigenvectors_ = make_numbers(context_, piece * n * n, "eigenvectors");
  }
  std::uint32_t first = 0, count = 0;
  const auto record = [&](CommandList& list) {
    at->record_hessians(list, terms_.operands(v_.x), first, count, blocks);
    if (project) record_projection(list, n, count, blocks);
  };
  std::vector<double> stored;
  for (; first < instances; first += count) {
    count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(piece, at->columns().chunk_end(first) - first));
    if (first == 0) Recorder::make(record);
    recorder_.submit(recorder_.make_list("hessian", record));
    stored.resize(std::size_t{count} * size);
    read_numbers(context_, blocks, stored);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t instance = problem_.row(term, first + i);
      for (std::uint32_t k = 0; k < size; ++k)
        values[instance * size + k] = stored[std::size_t{k} * count + i];
    }
  }
  rotated_ = {};
  eigenvectors_ = {};
}

}  // namespace topograd::runtime::vulkan
