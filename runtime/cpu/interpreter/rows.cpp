// The interpreter on rows of numbers.
#include "rows.hpp"

#include "../../../ir/program.hpp"
#include "interpreter.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {
namespace {

template <class T>
class CpuRows final : public RowRunner {
 public:
  explicit CpuRows(Bits bits) : ops_(tile_ops<T>(bits)) {}

  Backend backend() const override { return Backend::cpu; }
  std::string device() const override { return ops_.name; }
  Precision precision() const override {
    return sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
  }

  Columns run(const ir::Program& program, const Rows& rows) override {
    check_rows(program, rows);
    const TileKernel<T> kernel(program, ops_);
    const std::size_t padded = whole_tiles(rows.count);
    Column<std::uint32_t> identity(padded);
    for (std::size_t i = 0; i < padded; ++i) identity[i] = static_cast<std::uint32_t>(i);
    std::vector<Column<T>> leaves, results;
    Binding<T> binding;
    for (const LeafUse& leaf : kernel.program().columns) {
      leaves.push_back(padded_column((*ir::leaf_space(leaf.op, rows))[leaf.slot], rows.count));
      binding.columns.push_back({leaves.back().data()});
    }
    for (const LeafUse& leaf : kernel.program().gathers) {
      leaves.push_back(padded_column((*ir::leaf_space(leaf.op, rows))[leaf.slot], rows.count));
      binding.gathers.push_back({leaves.back().data(), identity.data()});
    }
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      results.emplace_back(padded);
      binding.outputs.push_back(results.back().data());
    }
    for (std::size_t first = 0; first < rows.count; first += kTile) {
      worker_.run(kernel, binding, first, std::min(kTile, rows.count - first));
    }
    Columns out;
    for (const Column<T>& c : results) out.emplace_back(c.data(), c.data() + rows.count);
    return out;
  }

 private:
  static Column<T> padded_column(const std::vector<double>& from, std::size_t count) {
    Column<T> column(whole_tiles(count));
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = i < count ? static_cast<T>(from[i]) : T(0);
    }
    return column;
  }

  const TileOps<T>& ops_;
  Worker<T> worker_;
};

}  // namespace

std::unique_ptr<RowRunner> make_row_runner(Precision precision, Bits bits) {
  if (precision == Precision::f32) return std::make_unique<CpuRows<float>>(bits);
  return std::make_unique<CpuRows<double>>(bits);
}

}  // namespace topograd::runtime::cpu
