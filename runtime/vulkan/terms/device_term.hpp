// One term of a model on the device: columns in chunks, kernels by pass, gather sets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "../../../codegen/kernel.hpp"
#include "../../../ir/batch/batch.hpp"
#include "../gather/gather_set.hpp"
#include "../recording/context.hpp"

namespace topograd::runtime::vulkan {

class NumbersInCode {
 public:
  /// Batch outlives this.
  explicit NumbersInCode(const ir::Batch& batch) : batch_(batch) {}

  /// Looks for numbers that may be code: normal ones, which no rule of a compiler takes for what
  /// they are not. True if there are some. Cost: a pass over such columns at most.
  bool find(const Context& context);
  /// The found numbers are still what all instances share.
  bool hold() const;
  const SharedNumbers& found() const { return found_; }
  /// The layout without the columns of these numbers.
  codegen::ColumnLayout left_out_of(codegen::ColumnLayout layout) const;

 private:
  const ir::Batch& batch_;
  SharedNumbers found_;
};

/// Columns in chunks that fit a storage buffer range. Results that are stored by instance lie
/// likewise: value k of instance i of a chunk at chunk.first * width + k * chunk.count + (i -
/// chunk.first).
class TermColumns {
 public:
  struct Chunk {
    std::uint32_t first = 0, count = 0;
    Buffer index, data;
    FormWords words;
    ColumnsInPlace resident;
  };

  ///   row_numbers  that a pass stores for one instance, at most
  ///
  /// Context, batch and shape outlive this. Throws Error{Unsupported} if columns of a few instances
  /// exceed a range.
  TermColumns(Context& context, const ir::Batch& batch, const TermShape& shape,
              std::uint64_t row_numbers);

  const ColumnForms& forms() const { return forms_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  void bind(BindingTable& table, const Chunk& chunk) const;
  /// Distance between stored values of an instance, if all instances are in one chunk.
  std::uint32_t stride() const { return chunks_.front().count; }
  /// Partial sums of the cost, at most.
  std::uint32_t cost_partials() const;
  /// End of the chunk that instance `first` belongs to.
  std::uint32_t chunk_end(std::uint32_t first) const;

  /// Reads the data columns again. True if they moved to other buffers.
  ///
  ///   own  also those that lie on the host
  bool refresh(bool own);

  /// Changes values from instance-major [i * width + k] to the order of chunks or back.
  void to_device_order(std::span<const double> by_instance, std::span<double> stored,
                       std::uint32_t width) const;
  void from_device_order(std::span<const double> stored, std::span<double> by_instance,
                         std::uint32_t width) const;

 private:
  void upload_index(Chunk& chunk);
  void upload_data(Chunk& chunk, bool own = true);

  Context& context_;
  const ir::Batch& batch_;
  const TermShape& shape_;
  ColumnForms forms_;
  std::vector<Chunk> chunks_;
};

/// A term's columns and kernels. The caller owns the buffers that kernels write.
class DeviceTerm {
 public:
  /// Throws Error{Unsupported} if a residual reads too many unknowns, or if its columns or terms do
  /// not fit a storage buffer range.
  DeviceTerm(Context& context, const Term& term, const Model& model);

  /// Energies have no part in the passes of least squares.
  bool takes_part(Pass pass) const { return !shape().energy || energies_take_part(pass); }
  const TermColumns& columns() const { return columns_; }
  NumbersInCode& numbers() { return numbers_; }
  const ir::Batch& batch() const { return batch_; }
  const TermShape& shape() const { return serving().view.shape; }
  std::uint32_t outputs() const {
    return static_cast<std::uint32_t>(shape().topology->program.outputs.size());
  }
  std::uint32_t slots() const { return shape().topology->program.leaves.parameters; }
  std::size_t instances() const { return batch_.size(); }
  bool has_guards() const { return !shape().topology->program.guards.empty(); }

  /// Numbers that a store pass writes: instances x outputs of the pass.
  std::uint64_t stored_size(Pass pass) const;
  /// True if the terms of an accumulating pass can be stored in one range.
  bool terms_fit() const;

  /// residual, jacobian, jvp, or the slots' terms of an accumulating pass, in the order of
  /// TermColumns. Rows of a pass with values, which needs `sinks`, lie in these as those of
  /// residual in `out`.
  void record_store(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                    ValueSinks* sinks = nullptr);
  /// Adds into out[index of slot] by atomics. `out` was cleared before.
  void record_scatter(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                      ValueSinks* sinks = nullptr);
  /// Partial sums of the cost, one a workgroup; returns how many numbers of `partials` are written
  /// from `first` on.
  std::uint32_t record_cost(CommandList& list, const Operands& operands, const Buffer& partials,
                            std::uint32_t first);
  /// The Hessians of instances [first, first + count), all in one chunk: entry k of instance first
  /// + i at k * count + i of `out`.
  void record_hessians(CommandList& list, const Operands& operands, std::uint32_t first,
                       std::uint32_t count, const Buffer& out);
  /// Jᵀ(J·p) from a Jacobian stored by record_store: the terms of its slots.
  void record_stored_jtjp(CommandList& list, const Buffer& jacobian, const Operands& operands,
                          const Buffer& out);

  /// The sets that a gather pass runs, one for each array this term touches.
  std::vector<std::unique_ptr<GatherSet>>& gather_sets();
  /// The set that can give values beside its sums; null if none can give those of `pass`.
  GatherSet* value_set(Pass pass);

  // A mask: constant blocks get no derivatives, no entries and no sums. General kernels and sets
  // stay beside it until they are let go of.
  /// From now on `masked` kernels and sets can serve.
  ///
  ///   fixed      see TermShape::fixed
  ///   constant  by scalar, outlives this
  void set_mask(std::vector<std::uint32_t> fixed, std::span<const std::uint8_t> constant);
  void use_mask(bool masked) { masked_ = masked; }
  void let_general_go() { general_.sets.reset(); }

  /// Reads the data columns again. True if they moved to other buffers: lists that read them are
  /// to be recorded again.
  ///
  ///   own  also those that lie on the host
  bool refresh_data(bool own);
  /// Bytes of its plans that stay on the host.
  std::uint64_t host_bytes() const;

 private:
  using Sets = std::vector<std::unique_ptr<GatherSet>>;
  using Kernels = std::map<std::tuple<Pass, bool>, TermKernel>;  // predicated
  /// Kernels for all blocks, or without those that are fixed.
  struct Variant {
    BatchView view;
    std::span<const std::uint8_t> constant;  // by scalar, where these are left out
    std::optional<Sets> sets;                // once they were planned
    Kernels store, scatter;
  };
  using BindOut = std::function<void(BindingTable&, const TermColumns::Chunk&)>;

  const Variant& serving() const { return masked_ ? without_fixed_ : general_; }
  Variant& serving() { return masked_ ? without_fixed_ : general_; }
  /// Predicated where operands have scalars.
  const LoadedKernel& store_kernel(const CommandList& list, Pass pass, const Operands& operands);
  const LoadedKernel& scatter_kernel(const CommandList& list, Pass pass, const Operands& operands);
  /// Records a kernel over all chunks.
  void run(CommandList& list, const LoadedKernel& kernel, const Operands& operands,
           ValueSinks* sinks, const BindOut& bind_out);

  Context& context_;
  const Model& model_;
  const ir::Batch& batch_;
  Variant general_, without_fixed_;
  bool masked_ = false;
  TermColumns columns_;
  NumbersInCode numbers_;
  TermKernel cost_kernel_;
};

}  // namespace topograd::runtime::vulkan
