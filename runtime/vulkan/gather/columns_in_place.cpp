// Copies of numbers on the device to columns on the device.
#include "columns_in_place.hpp"

#include "../../cache/content_hash.hpp"
#include "../../device/kernels/kernel_cache.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr std::uint32_t kLocalSize = 128;
constexpr const char* kFloat = "float";
constexpr const char* kDouble = "double";

struct Push {
  std::uint32_t count = 0, from = 0, to = 0;
};

std::string take_text(const char* from, const char* to) {
  return "#version 450\n"
         "// Rows of a data column from numbers that lie on the device.\n"
         "layout(local_size_x = " +
         std::to_string(kLocalSize) +
         ") in;\n"
         "layout(std430, binding = 0) readonly buffer Numbers { " +
         from +
         " numbers[]; };\n"
         "layout(std430, binding = 1) readonly buffer Places { uint places[]; };\n"
         "layout(std430, binding = 2) writeonly buffer Column { " +
         to +
         " column[]; };\n"
         "layout(push_constant) uniform Push { uint count, from, to; };\n"
         "\n"
         "void main() {\n"
         "  const uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;\n"
         "  for (uint i = gl_GlobalInvocationID.x; i < count; i += step)\n"
         "    column[to + i] = " +
         to +
         "(numbers[from + places[i]]);\n"
         "}\n";
}

Kernel take_kernel(const Context& context, bool from_wide) {
  const char* const from = from_wide ? kDouble : kFloat;
  const char* const to = context.wide() ? kDouble : kFloat;
  const std::string name = std::string("take_") + from + "_as_" + to;
  const std::string glsl = take_text(from, to);
  return context.cache
      ->kernel({.name = name,
                .glsl = glsl,
                .key = hash_text(glsl),
                .storage_buffers = 3,
                .push_constant_bytes = sizeof(Push),
                .local_size = {kLocalSize, 1, 1}},
               *context.compiled)
      .kernel;
}

}  // namespace

bool ColumnsInPlace::add(const Context& context, const ir::Batch& batch, std::uint32_t column,
                         std::uint64_t first, std::uint32_t count) {
  const ir::ResidentColumn* const resident = batch.resident(column);
  const auto* const numbers =
      resident ? dynamic_cast<const DeviceNumbers*>(resident->numbers.get()) : nullptr;
  if (!numbers) return false;
  std::optional<DeviceNumbers::View> from = numbers->view(*context.device);
  // Numbers that exceed a binding are copied through the host.
  if (!from || from->buffer->size() > context.max_range()) return false;
  if (from->wide && !context.device->features().has_float64()) return false;
  pending_.push_back({column, count, first, *std::move(from)});
  return true;
}

const Buffer& ColumnsInPlace::indices(Context& context, const ir::Batch& batch,
                                      const Column& column, std::span<const std::uint32_t> rows,
                                      std::uint32_t first_row) {
  Indices& kept = kept_[column.column];
  const ir::ResidentColumn& resident = *batch.resident(column.column);
  if (kept.of == resident.indices && kept.buffer) return kept.buffer;
  const std::vector<std::uint32_t>& all = *resident.indices;
  std::vector<std::uint32_t> picked(column.count);
  for (std::uint32_t i = 0; i < column.count; ++i)
    picked[i] = all[rows.empty() ? first_row + i : rows[i]];
  kept = {resident.indices, make_buffer(context, picked, "resident_places")};
  return kept.buffer;
}

void ColumnsInPlace::take(Context& context, const ir::Batch& batch, const Buffer& columns,
                          std::span<const std::uint32_t> rows, std::uint32_t first_row) {
  if (pending_.empty()) return;
  CommandList list = context.device->command_list("take_columns");
  for (const Column& column : std::exchange(pending_, {})) {
    const Push push{column.count, static_cast<std::uint32_t>(column.from.first),
                    static_cast<std::uint32_t>(column.first)};
    const Binding bindings[] = {
        {column.from.buffer}, {&indices(context, batch, column, rows, first_row)}, {&columns}};
    const std::uint32_t groups =
        std::min((column.count + kLocalSize - 1) / kLocalSize, context.most_workgroups());
    list.dispatch(take_kernel(context, column.from.wide), bindings, push_bytes(push),
                  std::max(groups, 1u));
  }
  context.device->submit(list);
}

}  // namespace topograd::runtime::vulkan
