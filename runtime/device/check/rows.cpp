// Generated kernels on rows of numbers on a device.
#include "rows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

class DeviceRows final : public RowRunner {
 public:
  explicit DeviceRows(LaunchContext context) : context_(std::move(context)) {}

  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  Precision precision() const override { return context_.precision; }

  Columns run(const ir::Program& program, const Rows& rows) override {
    check_rows(program, rows);
    codegen::KernelRequest request;
    request.name = "rows";
    request.program = program;
    request.layout = codegen::general_layout(program.leaves);
    const LoadedKernel kernel = load_kernel(context_, request);
    const ir::LeafCounts& n = program.leaves;
    const std::uint64_t widest = std::max<std::uint64_t>(
        {program.outputs.size(), n.parameters + n.uniforms, n.data, n.seeds, 1});
    const std::uint64_t most = std::min<std::uint64_t>(
        context_.max_range() / (widest * context_.element_bytes()), std::uint64_t{1} << 20);
    Columns out(program.outputs.size());
    for (std::size_t first = 0; first < rows.count; first += most) {
      run_part(kernel, n, rows, first, std::min<std::size_t>(most, rows.count - first), out);
    }
    return out;
  }

 private:
  /// Rows [first, first + count) of the columns, one column after the other.
  static std::vector<double> part(const Columns& columns, std::size_t first, std::size_t count) {
    std::vector<double> values;
    for (const std::vector<double>& column : columns) {
      if (column.size() < first + count) continue;
      const auto begin = column.begin() + static_cast<std::ptrdiff_t>(first);
      values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    return values;
  }

  void run_part(const LoadedKernel& kernel, const ir::LeafCounts& n, const Rows& rows,
                std::size_t first, std::size_t count, Columns& out) {
    // Column k of row i reads number k * count + i of its space.
    std::vector<std::uint32_t> index(std::size_t{n.parameters} * count);
    std::iota(index.begin(), index.end(), 0u);
    const std::size_t parameters = index.size();
    index.resize(parameters + std::size_t{n.uniforms} * count);
    std::iota(index.begin() + static_cast<std::ptrdiff_t>(parameters), index.end(), 0u);
    const auto numbers = [&](const Columns& columns, std::string_view name) {
      return make_buffer(context_, std::span<const double>(part(columns, first, count)), name);
    };
    const Buffer x = numbers(rows.parameters, "x"), direction = numbers(rows.tangents, "direction");
    const Buffer uniforms = numbers(rows.uniforms, "uniforms"), data = numbers(rows.data, "data");
    const Buffer seeds = numbers(rows.seeds, "seeds");
    const Buffer indices = make_buffer(context_, std::span<const std::uint32_t>(index), "index");
    const Buffer results = make_numbers(context_, out.size() * count, "results");
    BindingTable table;
    table.set(BufferRole::x, x);
    table.set(BufferRole::direction, direction);
    table.set(BufferRole::uniforms, uniforms);
    table.set(BufferRole::data_columns, data);
    table.set(BufferRole::seeds, seeds);
    table.set(BufferRole::index_columns, indices);
    table.set(BufferRole::results, results);
    CommandList list = context_.device->command_list("rows");
    const auto stride = static_cast<std::uint32_t>(count);
    dispatch_all(context_, list, kernel, table, {.stride = stride, .out_stride = stride}, count);
    context_.device->submit(list).wait();
    std::vector<double> values(out.size() * count);
    read_numbers(context_, results, values);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(k * count);
      out[k].insert(out[k].end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
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
