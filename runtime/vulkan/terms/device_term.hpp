// One term of a model on the device: columns in chunks, kernels by pass, gather sets.
#pragma once

#include "gather_set.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

/// A term's columns and kernels. Buffers that kernels write are the caller's.
class DeviceTerm {
 public:
  DeviceTerm(Context& context, const Term& term, const Model& model);

  /// Energies have no part in the passes of least squares.
  bool takes_part(Pass pass) const { return !view_.shape.energy || energies_take_part(pass); }
  std::uint32_t outputs() const { return rows_; }
  std::uint32_t slots() const { return slots_; }
  std::size_t instances() const { return batch_->size(); }
  const ir::Batch& batch() const { return *batch_; }
  const TermShape& shape() const { return view().shape; }

  /// Numbers that a store pass writes: instances x outputs of the pass.
  std::uint64_t stored_size(Pass pass) const;
  // Kernels of the functions below. Predicated: operands have scalars.
  void need_store(Needs& needs, Pass pass, bool predicated = false);
  void need_scatter(Needs& needs, Pass pass, bool predicated = false);
  void need_cost(Needs& needs);
  /// residual, jacobian, jvp, or the slots' terms of an accumulating pass: value k of instance i of
  /// a chunk is at chunk.first * width + k * chunk.count + (i - chunk.first). Rows of a pass with
  /// values, which needs `sinks`, lie in these as those of residual in `out`.
  void record_store(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                    ValueSinks* sinks = nullptr);
  /// Changes values from instance-major [i * width + k] to the order of record_store or back.
  void to_device_order(std::span<const double> by_instance, std::span<double> stored,
                       std::uint32_t width) const;
  void from_device_order(std::span<const double> stored, std::span<double> by_instance,
                         std::uint32_t width) const;

  /// The Hessians of instances [first, first + count), all in one chunk: entry k of instance first
  /// + i at k * count + i of `out`.
  void record_hessians(CommandList& list, const Operands& operands, std::uint32_t first,
                       std::uint32_t count, const Buffer& out);
  /// End of the chunk that instance `first` belongs to.
  std::uint32_t chunk_end(std::uint32_t first) const;

  /// Partial sums of the cost, one a workgroup; returns how many numbers of `partials` are written
  /// from `first` on.
  std::uint32_t record_cost(CommandList& list, const Operands& operands, const Buffer& partials,
                            std::uint32_t first);
  std::uint32_t cost_partials() const;
  bool has_guards() const { return !view_.shape.topology->program.guards.empty(); }

  /// Bytes of its plans that stay on the host.
  std::uint64_t host_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& set : gather_sets_) bytes += set->host_bytes();
    for (const auto& set : masked_sets_) bytes += set->host_bytes();
    return bytes;
  }

  // A mask: what is constant gets no derivatives, no entries and no sums. General kernels and sets
  // stay beside it until they are let go of.
  /// From now on `masked` kernels and sets can serve.
  ///
  ///   held      see TermShape::held
  ///   constant  by scalar, outlives this
  void set_mask(std::vector<std::uint32_t> held, std::span<const std::uint8_t> constant);
  void use_mask(bool masked) { masked_ = masked; }
  void let_general_go() {
    gather_sets_.clear();
    planned_ = false;
  }

  /// What one evaluation of a pass that is summed by owner takes.
  struct Work {
    std::uint64_t entries = 0;     ///< that are summed; of stored terms those of one evaluation
    std::uint64_t operations = 0;  ///< functions count as one
    std::uint64_t bytes = 0;       ///< of columns, and of stored terms
  };
  Work work(Pass pass, bool stored_terms);

  /// The sets that a gather pass runs, one for each array this term touches.
  std::vector<std::unique_ptr<GatherSet>>& gather_sets();
  /// Adds into out[index of slot] by atomics. `out` was cleared before.
  void record_scatter(CommandList& list, Pass pass, const Operands& operands, const Buffer& out,
                      ValueSinks* sinks = nullptr);
  /// The set that can give values beside its sums; null if none can give those of `pass`.
  GatherSet* value_set(Pass pass);
  /// Partial sums of the cost that its kernels write, at most, whichever they are.
  std::uint64_t most_costs();

  /// Its terms are stored, and summed by scalar.
  bool is_wide() const { return runtime::is_wide(shape().groups); }
  /// True if the terms of an accumulating pass can be stored in one range.
  bool terms_fit() const;
  std::uint32_t store_stride() const;

  /// Jᵀ(J·p) from a Jacobian stored by record_store: the terms of its slots.
  void record_stored_jtjp(CommandList& list, const Buffer& jacobian, const Operands& operands,
                          const Buffer& out);

  /// Columns of Pass::stored_jacobian: how many there are, and which one is coordinate c of group g
  /// of slots, at g * kMaxBlockWidth + c; kNone where nothing is differentiated by it.
  struct JacobianColumns {
    static constexpr std::uint32_t kNone = ~0u;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> by_group;
  };
  JacobianColumns jacobian_columns() const;
  /// True if it can be stored in one range, instances in one piece.
  bool jacobian_fits() const;

  /// Looks for numbers that may be code: normal ones, which no rule of a compiler takes for what
  /// they are not. True if there are some. Cost: a pass over such columns at most.
  bool find_shared_numbers();
  /// Without the columns of numbers that are code in the kernels that serve.
  codegen::ColumnLayout serving_layout() const;
  /// Those that were found are still what all instances share.
  bool shares_numbers() const;

  /// Operations of one evaluation of a pass over all slots, library functions counted as
  /// `kFunctionCost`.
  std::uint64_t cost_of(Pass pass) const;

  /// Reads the data columns again. True if they moved to other buffers: lists that read them are
  /// to be recorded again.
  ///
  ///   own  also those that lie on the host
  bool refresh_data(bool own);

  /// True if numbers that lie on the host have changed since the last call. `source` is the batch
  /// that the term's rows were ordered from.
  bool follow_own_data(const ir::Batch& source) {
    const std::uint64_t now = source.own_data_version();
    return std::exchange(own_data_version_, now) != now;
  }

 private:
  struct Chunk {
    std::uint32_t first = 0, count = 0;
    Buffer index, data;
    FormWords words;
    RemoteColumns remote;
  };

  const BatchView& view() const { return masked_ ? masked_view_ : view_; }
  [[noreturn]] void refuse_width(const Term& term) const;
  [[noreturn]] void refuse_terms() const;
  void make_chunks();
  void upload_index(Chunk& chunk);
  void upload_data(Chunk& chunk, bool own = true);
  void bind_columns(BindingTable& table, const Chunk& chunk) const;
  using Key = std::tuple<Pass, bool, bool>;  // predicated, masked
  const LoadedKernel& serving(std::map<Key, TermKernel>& kernels, Pass pass,
                              const Operands& operands) const {
    return serving_kernel(context_, kernels[{pass, operands.scalars != nullptr, masked_}]);
  }
  std::uint32_t width(Pass pass) const;
  void bind_rows(BindingTable& table, const Chunk& chunk, const ValueSinks* sinks,
                 codegen::PushConstants& push) const;

  Context& context_;
  const Model& model_;
  const ir::Batch* batch_;
  std::uint32_t rows_, slots_;
  BatchView view_, masked_view_;
  std::span<const std::uint8_t> constant_;
  bool masked_ = false, planned_ = false, masked_planned_ = false;
  ColumnForms forms_;
  std::vector<Chunk> chunks_;
  std::map<Key, TermKernel> store_kernels_, scatter_kernels_;
  SharedNumbers numbers_;
  TermKernel cost_kernel_;
  std::vector<std::unique_ptr<GatherSet>> gather_sets_, masked_sets_;
  std::uint64_t own_data_version_ = 0;
};

}  // namespace topograd::runtime::vulkan
