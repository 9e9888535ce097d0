// Sums by chunk on the device, and their exchange with the other parts of the model.
#pragma once

#include "../../model/model_part.hpp"
#include "../terms/term_rows.hpp"
#include "part_work.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Columns of numbers, one for each own chunk. Kernels write them to memory of the host.
struct ChunkColumns {
  ///   count  columns
  ChunkColumns(const Context& context, const ModelPart& part, std::uint32_t count);
  /// Waits for the submission that wrote them.
  void read(Context& context);
  std::span<double> column(std::uint32_t k) {
    return std::span(numbers).subspan(std::size_t{k} * chunks, chunks);
  }

  std::uint32_t chunks;
  Buffer sums;
  std::vector<double> numbers;  ///< on the host
};

/// Sums of the own chunks. Each takes the order of its chunk, so that it does not depend on the
/// division of the model.
class ChunkSums : Part {
 public:
  ///   work  of this part's device; outlives it
  ChunkSums(const Part& part, std::shared_ptr<const ModelPart> of, const PartWork& work);

  const ModelPart& of() const { return *of_; }
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(of_->chunks.size()); }

  /// A kernel with a workgroup for each chunk, to columns from `first` on.
  template <class Kernel>
  void record(CommandList& list, Kernel kernel, const ChunkColumns& columns,
              std::uint32_t first = 0) const {
    if (chunks() == 0) return;
    if constexpr (requires { kernel.buffers.ends; }) kernel.buffers.ends = ends_;
    if constexpr (requires { kernel.push.out_stride; }) kernel.push.out_stride = chunks();
    kernel.buffers.partials = columns.sums;
    kernel.push.out_first = first * chunks();
    v_.ops->record(list, kernel, {.groups = chunks()});
  }

  /// Sums of adjacent columns over all chunks of the model, in their order. NaN for the own chunks
  /// if the device's work has failed. Collective.
  std::vector<double> totals(std::span<const double> columns, std::size_t count) const;
  /// The same; of the last column the largest number, or NaN.
  std::vector<double> totals_and_largest(std::span<const double> columns, std::size_t count) const;

 private:
  /// The numbers of all chunks of the model.
  std::span<const double> all_chunks(std::span<const double> columns, std::size_t count) const;

  std::shared_ptr<const ModelPart> of_;
  const PartWork& work_;
  Buffer ends_;  // first and end of each chunk
};

/// Costs of all terms by chunk.
class PartCosts : Part {
 public:
  PartCosts(const Part& part, TermRows& rows, const ChunkSums& sums);

  std::uint32_t columns() const { return static_cast<std::uint32_t>(terms_.size()); }
  /// A column for each term, from `first` on. Begins behind a barrier, ends with one to come.
  void record(CommandList& list, const Buffer& x, const ChunkColumns& columns, std::uint32_t first);
  /// The cost of the model from such columns on the host. Collective.
  double total(ChunkColumns& columns, std::uint32_t first) const;

 private:
  struct Instances {  // of one term, by chunk, ascending
    Buffer starts, entries;
  };
  Instances instances_of(const Term& term) const;

  TermRows& rows_;
  const ChunkSums& sums_;
  std::vector<Instances> instances_;  // by term
};

}  // namespace topograd::runtime::vulkan
