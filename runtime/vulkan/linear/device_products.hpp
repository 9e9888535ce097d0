// The lists of BlockProducts on the device.
#pragma once

#include "../../linear/block_products.hpp"
#include "../recording/vector_ops.hpp"
#include "jacobian_columns.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

struct DeviceProducts {
  ///   name  of buffers: a literal
  DeviceProducts(Context& context, const BlockProducts& products, const DeviceTerm& of,
                 const char* name)
      : term(products.term),
        shapes(products.shapes),
        rows(of.outputs()),
        instances(static_cast<std::uint32_t>(of.instances())) {
    const JacobianColumns jacobian = jacobian_columns(of.shape());
    const auto words = [&](std::span<const std::uint32_t> list) {
      return make_buffer(context, list, name);
    };
    columns = jacobian.count;
    slots = words(jacobian.by_group);
    outputs = words(products.outputs);
    starts = words(products.starts);
    entries = words(products.entries);
  }

  /// Sums the products into the blocks of `kernel`, whose lists and sizes are set here.
  template <class Kernel>
  void record(CommandList& list, VectorOps& vectors, Kernel kernel) const {
    kernel.buffers.starts = starts;
    kernel.buffers.entries = entries;
    kernel.buffers.outputs = outputs;
    kernel.buffers.column_numbers = slots;
    kernel.push.residuals = rows;
    kernel.push.columns = columns;
    kernel.push.instances = instances;
    for (const BlockShape& shape : shapes) {
      kernel.push.count = shape.count * shape.rows * shape.columns;
      kernel.push.first = shape.first;
      kernel.push.block_rows = shape.rows;
      kernel.push.block_columns = shape.columns;
      vectors.record(list, kernel);
    }
  }

  std::size_t term;
  std::vector<BlockShape> shapes;
  std::uint32_t rows, columns = 0, instances;  // of the stored Jacobian
  Buffer slots, outputs, starts, entries;
};

}  // namespace topograd::runtime::vulkan
