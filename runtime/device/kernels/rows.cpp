// Programs over rows: indices and data stay on the device, vectors go there, outputs come back.
#include "../../rows/rows.hpp"

#include "../../../ir/error.hpp"
#include "launch.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Numbers [first, first + count) of the columns, one column after the other; a column that is
/// shorter is read by no node.
template <class R>
auto joined(const R& columns, std::size_t first, std::size_t count) {
  std::vector<std::remove_cvref_t<decltype(columns[0][0])>> values;
  for (const auto& column : columns) {
    if (column.size() < first + count) {
      values.resize(values.size() + count);
      continue;
    }
    const auto begin = column.begin() + static_cast<std::ptrdiff_t>(first);
    values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return values;
}

/// A buffer that is made when numbers come that do not fit.
class Numbers {
 public:
  void write(LaunchContext& context, std::span<const double> numbers, std::string_view name) {
    if (numbers.size() <= size_ && buffer_) return write_numbers(context, buffer_, numbers);
    buffer_ = make_buffer(context, numbers, name);
    size_ = numbers.size();
  }
  const Buffer& get() const { return buffer_; }

 private:
  Buffer buffer_;
  std::size_t size_ = 0;
};

class DeviceRowKernel final : public RowKernel {
 public:
  DeviceRowKernel(LaunchContext& context, const ir::Program& program, RowIndices indices)
      : context_(context), count_(indices.count), outputs_(program.outputs.size()) {
    codegen::KernelRequest request;
    request.name = "rows";
    request.program = program;
    request.layout = codegen::general_layout(program.leaves);
    kernel_ = load_kernel(context_, request);
    const ir::LeafCounts& n = program.leaves;
    indices.parameters.resize(n.parameters);
    indices.uniforms.resize(n.uniforms);
    indices.data.resize(n.data);
    const std::uint64_t widest = std::max<std::uint64_t>(
        {outputs_, std::uint64_t{n.parameters} + n.uniforms, n.data, n.seeds, 1});
    const std::uint64_t most = std::min<std::uint64_t>(
        context_.max_range() / (widest * context_.element_bytes()), std::uint64_t{1} << 20);
    if (most == 0)
      throw Error(ErrorCode::Unsupported,
                  "rows: " + std::to_string(widest) + " columns are too many for the device");
    for (std::size_t first = 0; first < count_; first += most)
      parts_.push_back(make_part(indices, first, std::min<std::size_t>(most, count_ - first)));
  }

  Columns run(const RowNumbers& numbers) override {
    x_.write(context_, numbers.x, "x");
    direction_.write(context_, numbers.direction, "direction");
    uniforms_.write(context_, numbers.uniforms, "uniforms");
    Columns out(outputs_);
    for (std::vector<double>& column : out) column.reserve(count_);
    for (const Part& part : parts_) run(part, numbers, out);
    return out;
  }

 private:
  struct Part {
    std::size_t first = 0, count = 0;
    Buffer index, data, results;
  };

  Part make_part(const RowIndices& indices, std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> index = joined(indices.parameters, first, count);
    const std::vector<std::uint32_t> more = joined(indices.uniforms, first, count);
    index.insert(index.end(), more.begin(), more.end());
    const std::vector<double> data = joined(indices.data, first, count);
    return {.first = first,
            .count = count,
            .index = make_buffer(context_, std::span<const std::uint32_t>(index), "index"),
            .data = make_buffer(context_, std::span<const double>(data), "data"),
            .results = make_numbers(context_, outputs_ * count, "results")};
  }

  void run(const Part& part, const RowNumbers& numbers, Columns& out) {
    seeds_.write(context_, joined(numbers.seeds, part.first, part.count), "seeds");
    BindingTable table;
    table.set(BufferRole::x, x_.get());
    table.set(BufferRole::direction, direction_.get());
    table.set(BufferRole::uniforms, uniforms_.get());
    table.set(BufferRole::data_columns, part.data);
    table.set(BufferRole::seeds, seeds_.get());
    table.set(BufferRole::index_columns, part.index);
    table.set(BufferRole::results, part.results);
    CommandList list = context_.device->command_list("rows");
    const auto stride = static_cast<std::uint32_t>(part.count);
    dispatch_all(context_, list, kernel_, table, {.stride = stride, .out_stride = stride},
                 part.count);
    context_.device->submit(list).wait();
    std::vector<double> values(outputs_ * part.count);
    read_numbers(context_, part.results, values);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(k * part.count);
      out[k].insert(out[k].end(), begin, begin + static_cast<std::ptrdiff_t>(part.count));
    }
  }

  LaunchContext& context_;
  std::size_t count_, outputs_;
  LoadedKernel kernel_;
  std::vector<Part> parts_;
  Numbers x_, direction_, uniforms_, seeds_;
};

class DeviceRows final : public RowRunner {
 public:
  explicit DeviceRows(LaunchContext context) : context_(std::move(context)) {}

  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  Precision precision() const override { return context_.precision; }

  std::unique_ptr<RowKernel> prepare(const ir::Program& program, RowIndices indices) override {
    return std::make_unique<DeviceRowKernel>(context_, program, std::move(indices));
  }

  Columns run(const ir::Program& program, const Rows& rows) override {
    check_rows(program, rows);
    const ir::LeafCounts& n = program.leaves;
    const std::uint64_t widest =
        std::max<std::uint64_t>({n.parameters, n.uniforms, std::uint64_t{1}});
    const std::size_t most = context_.max_range() / (widest * context_.element_bytes());
    Columns out(program.outputs.size());
    for (std::size_t first = 0; first < rows.count; first += most) {
      const Columns found = run_part(program, rows, first, std::min(most, rows.count - first));
      for (std::size_t k = 0; k < out.size(); ++k)
        out[k].insert(out[k].end(), found[k].begin(), found[k].end());
    }
    return out;
  }

 private:
  /// Row i of parameter k is number k * count + i of x; of a uniform likewise.
  Columns run_part(const ir::Program& program, const Rows& rows, std::size_t first,
                   std::size_t count) {
    const auto in_order = [&](std::size_t columns) {
      std::vector<std::vector<std::uint32_t>> indices(columns);
      std::uint32_t next = 0;
      for (std::vector<std::uint32_t>& column : indices)
        for (std::size_t i = 0; i < count; ++i) column.push_back(next++);
      return indices;
    };
    const auto part = [&](const Columns& columns) {
      Columns out;
      for (const std::vector<double>& column : columns)
        out.push_back(joined(std::span(&column, 1), first, count));
      return out;
    };
    const std::vector<double> x = joined(rows.parameters, first, count);
    const std::vector<double> direction = joined(rows.tangents, first, count);
    const std::vector<double> uniforms = joined(rows.uniforms, first, count);
    const Columns seeds = part(rows.seeds);
    return prepare(program, {.count = count,
                             .parameters = in_order(program.leaves.parameters),
                             .uniforms = in_order(program.leaves.uniforms),
                             .data = part(rows.data)})
        ->run({.x = x,
               .direction = direction,
               .uniforms = uniforms,
               .seeds = {seeds.begin(), seeds.end()}});
  }

  LaunchContext context_;
};

}  // namespace

std::unique_ptr<RowRunner> make_row_runner(LaunchContext context) {
  return std::make_unique<DeviceRows>(std::move(context));
}

std::unique_ptr<RowRunner> make_row_runner(const std::shared_ptr<Device>& device,
                                           Precision precision) {
  return make_row_runner(make_launch_context(device, precision));
}

}  // namespace topograd::runtime::vulkan
