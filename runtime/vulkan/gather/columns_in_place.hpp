// Data columns whose numbers lie on the device already.
#pragma once

#include "../../../ir/batch/batch.hpp"
#include "../recording/context.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Numbers in a buffer of a device.
class DeviceNumbers : public ir::ResidentData {
 public:
  struct View {
    std::shared_ptr<const void> keep;  ///< keeps the buffer
    const Buffer* buffer = nullptr;
    std::uint64_t first = 0;  ///< number
    bool wide = false;        ///< f64, otherwise f32
  };
  /// Their buffer, if it is on this device; kernels that write them were submitted.
  virtual std::optional<View> view(const Device& device) const = 0;
};

/// Such columns of one buffer. A kernel writes the rows and reads the numbers in place, by
/// positions that are uploaded once.
class ColumnsInPlace {
 public:
  /// True if the column lies on this device; it is then what take() writes, the next time, to
  /// `count` numbers of the buffer from `first` on, and not uploaded.
  bool add(const Context& context, const ir::Batch& batch, std::uint32_t column,
           std::uint64_t first, std::uint32_t count);
  /// Calls write(first, count) for the parts of a buffer of `size` numbers that are not such
  /// columns.
  template <class Write>
  void each_other(std::uint64_t size, Write write) const {
    std::uint64_t done = 0;
    for (const Column& column : pending_) {
      if (column.first > done) write(done, column.first - done);
      done = column.first + column.count;
    }
    if (size > done) write(done, size - done);
  }
  /// Queues the kernels.
  ///
  ///   rows  of the batch, count of them; empty: those from `first_row` on
  void take(Context& context, const ir::Batch& batch, const Buffer& columns,
            std::span<const std::uint32_t> rows, std::uint32_t first_row = 0);

 private:
  struct Column {
    std::uint32_t column = 0, count = 0;
    std::uint64_t first = 0;
    DeviceNumbers::View from;
  };
  struct Indices {
    ir::ResidentColumn::Indices of;
    Buffer buffer;
  };
  const Buffer& indices(Context& context, const ir::Batch& batch, const Column& column,
                        std::span<const std::uint32_t> rows, std::uint32_t first_row);

  std::vector<Column> pending_;            // ascending by first
  std::map<std::uint32_t, Indices> kept_;  // by column of the batch
};

}  // namespace topograd::runtime::vulkan
