// Index and data columns of a term's instances on the device.
#pragma once

#include "../gather/gather_set.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

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

}  // namespace topograd::runtime::vulkan
