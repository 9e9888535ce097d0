// Exchange of a part with the other parts of the model: sums by chunk, ghosts, and work between.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../../model/model.hpp"
#include "../terms/device_terms.hpp"
#include "../terms/term_rows.hpp"

namespace topograd::runtime::vulkan {

/// Keeps an exception until the end of a collective call. The other parts wait in exchanges, so a
/// part whose device fails goes on to take part in them: it skips the work that is left, and its
/// numbers are NaN (ChunkSums).
class PartWork {
 public:
  /// Calls f(), unless work of this call has failed.
  template <class F>
  void run(const F& f) {
    if (failure_) return;
    try {
      f();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  bool failed() const { return failure_ != nullptr; }
  /// Ends a collective call: throws what was kept.
  void finish() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  std::exception_ptr failure_;
};

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

/// Copies to ghosts on the device the numbers of the parts that own them. Only numbers at borders
/// come to the host: a list packs them, exchange() sends them, and a later list unpacks those that
/// came.
class PartGhosts : Part {
 public:
  ///   link, work  outlive it
  PartGhosts(const Part& part, PartLink& link, PartWork& work);

  /// To memory of the host. A barrier must precede it.
  void record_pack(CommandList& list, const Buffer& v);
  /// Waits for the last submission, whose list has packed. Collective.
  void exchange();
  /// Begins and ends with barriers to come.
  void record_unpack(CommandList& list, const Buffer& v);

 private:
  void exchange_narrow();

  PartLink& link_;
  PartWork& work_;
  std::uint32_t borders_, ghosts_;
  Buffer border_scalars_, ghost_scalars_;  // scalars of the part
  Buffer packed_, received_;               // in memory of the host
  std::vector<double> out_, in_;           // copies for numbers in f32
};

}  // namespace topograd::runtime::vulkan
